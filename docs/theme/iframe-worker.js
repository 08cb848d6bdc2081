/* Search in pages opened from the disk, where browsers start no worker: its script runs in a hidden frame in its place.
   The plugin "offline" would load such a script from another host; it does not where one of this name is given. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = "<!doctype html>"
      this.target = new Promise(resolve => {
        frame.onload = () => {
          frame.onload = null
          const inner = frame.contentWindow
          inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
          const script = inner.document.createElement("script")
          script.src = address
          script.onload = () => resolve(inner)
          inner.document.head.append(script)
        }
      })
      document.body.append(frame)
    }

    postMessage(data) {
      this.target.then(inner => inner.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
