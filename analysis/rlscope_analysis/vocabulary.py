"""The words that the writer and the readers of a trace database must agree on."""

# The newest schema these readers know. The writer holds its own copy; a test keeps them equal.
SCHEMA_VERSION = 1

# thread_state_coded.state, by code.
THREAD_STATES = ("running", "runnable", "sleeping", "blocked")

# thread_state.waker_kind, by thread_state_coded.waker; a positive waker is a thread.
WAKER_KINDS = {-1: "interrupt", -2: "outside", -3: "unknown"}
WAKER_THREAD = "thread"
