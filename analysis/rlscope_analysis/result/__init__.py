"""What every answer is: typed tables and notes by code, under a head; renderers make text of it."""
