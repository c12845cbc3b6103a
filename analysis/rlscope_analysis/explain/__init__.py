"""`explain`: what one iteration spent its time on, and in what it differs from a typical one."""
