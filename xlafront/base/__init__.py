"""The ground: settings, jaxlib's names, and the values that describe shardings (meshes, partition specs, layouts)."""
