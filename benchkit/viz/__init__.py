"""Pictures on matplotlib figures that the caller makes: nothing here imports matplotlib."""
