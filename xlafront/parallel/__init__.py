"""Programs over many devices and processes."""
