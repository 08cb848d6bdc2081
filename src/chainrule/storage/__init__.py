"""How models lie on disk: config.json, arrays in the safetensors layout, model folders."""
