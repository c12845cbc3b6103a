"""`compare` and `gate`: what differs between traces, where, and whether that is more than noise."""
