"""Models on disk: config.json, arrays in the safetensors format, model folders."""
