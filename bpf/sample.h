/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What sample.bpf.c and the collector tell each other: the raw samples, which the collector
 * classifies and never stores, and where the Python interpreter of a process keeps its frames.
 */
#ifndef RLS_SAMPLE_H
#define RLS_SAMPLE_H

#include "records.h"

/* Python functions of one sample; deeper ones are cut off at the outer end. */
#define RLS_SAMPLE_FRAMES 48
/*
 * Bytes of user stack: libc, libm and the loader keep far smaller frames, so that the return
 * address into whoever called them is among these.
 */
#define RLS_SAMPLE_STACK_BYTES 512

#define RLS_RAW_IN_OS_KERNEL 1 /* the tick hit the OS kernel: ip and sp are those of its caller */
#define RLS_RAW_FRAMES_CUT 2   /* there were more Python functions further out */
#define RLS_RAW_PYTHON 4       /* the interpreter of the process is known */
#define RLS_RAW_THREAD_STATE 8 /* and it knows this thread */

struct rls_raw_sample {
	rls_u16 kind; /* RLS_REC_SAMPLE */
	rls_u8 flags; /* RLS_RAW_* */
	rls_u8 frame_count;
	rls_u32 thread_id;
	rls_u64 ts_ns;
	rls_u64 born_ns;     /* of the process: with exec_id it says which program this is */
	rls_u32 ns_tgid;     /* the process, and its parent, as the recorder sees them */
	rls_u32 ns_parent;   /* 0: it does not */
	rls_u32 exec_id;     /* changes with every exec */
	rls_u32 stack_bytes; /* in use */
	rls_u64 ip;
	rls_u64 sp;
	rls_u64 link; /* where it returns to if that is not on the stack; 0: it is */
	rls_u64 frames[RLS_SAMPLE_FRAMES]; /* code objects, innermost first; 0: no function */
	rls_u64 stack[RLS_SAMPLE_STACK_BYTES / 8];
};
RLS_ASSERT_SIZE(rls_raw_sample, 64 + 8 * RLS_SAMPLE_FRAMES + RLS_SAMPLE_STACK_BYTES);

#define RLS_PYTHON_ABSENT 0xffff

/*
 * The interpreter of a process. Offsets in bytes, of one minor version of CPython: see
 * scripts/python_offsets. Those of a frame lie in its first 80 bytes.
 */
struct rls_python {
	rls_u64 runtime;       /* address of _PyRuntime */
	rls_u64 start_stack;   /* of the address space this was found in; 0: not known */
	rls_u16 runtime_head;  /* _PyRuntime: first interpreter */
	rls_u16 interp_next;   /* interpreter: the next one */
	rls_u16 interp_thread; /* interpreter: first thread state */
	rls_u16 thread_prev;   /* thread state: its neighbours, interpreter, pthread_self() */
	rls_u16 thread_next;
	rls_u16 thread_interp;
	rls_u16 thread_id;
	rls_u16 thread_frame; /* thread state: the innermost frame, or what points to it */
	rls_u16 cframe_frame; /* there: the innermost frame; or RLS_PYTHON_ABSENT */
	rls_u16 frame_prev;   /* frame: its caller */
	rls_u16 frame_code;   /* frame: its code object */
	rls_u16 frame_owner;  /* frame: who owns it, one byte; or RLS_PYTHON_ABSENT */
	rls_u16 self_before;  /* bytes from pthread_self() to the thread pointer */
	rls_u16 reserved[3];
};
RLS_ASSERT_SIZE(rls_python, 48);

/* frame_owner from which on it is an entry of the interpreter: no Python function. */
#define RLS_PYTHON_OWNED_BY_C_STACK 3

/* From 3.14 on, these bits of a frame's code tell who counts the reference. */
#define RLS_PYTHON_TAG 3ULL

#endif /* RLS_SAMPLE_H */
