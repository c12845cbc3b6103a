/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whether this CPU is in the function of a timer: what such a function wakes, a timer woke.
 * The OS kernel has two kinds: exact ones (sleeps, timeouts of futex and poll, timerfd), and the
 * wheel (timeouts of sockets and drivers).
 */
#ifndef RLS_BTF_TIMER_H
#define RLS_BTF_TIMER_H

#include "btf_filter.h"

/*
 * What a CPU is in. Each begin and end sets its own word, so one that was not traced cannot leave
 * the other wrong, nor this one for longer than to the next timer.
 */
struct rls_timers {
	__u64 exact; /* the task that it borrows, 0: in none */
	__u64 wheel;
};

/* Per CPU: 0 -> the timers it is in. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rls_timers);
} timers SEC(".maps");

static __always_inline struct rls_timers *timers_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&timers, &zero);
}

/* With a preemptible OS kernel other tasks can run before the function of a timer is over. */
static __always_inline bool in_timer(void)
{
	struct rls_timers *here = timers_here();
	__u64 current = bpf_get_current_task();

	return here && (here->exact == current || here->wheel == current);
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_exact_timer)
{
	struct rls_timers *here = timers_here();

	if (here)
		here->exact = bpf_get_current_task();
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_exact_timer_end)
{
	struct rls_timers *here = timers_here();

	if (here)
		here->exact = 0;
	return 0;
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_wheel_timer)
{
	struct rls_timers *here = timers_here();

	if (here)
		here->wheel = bpf_get_current_task();
	return 0;
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_wheel_timer_end)
{
	struct rls_timers *here = timers_here();

	if (here)
		here->wheel = 0;
	return 0;
}

#endif /* RLS_BTF_TIMER_H */
