"""What compiled programs and Python do together: callbacks, debugging, views of the process."""
