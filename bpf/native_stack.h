/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the native probes read of the thread that they interrupt: its registers and its stacks. */
#ifndef RLS_NATIVE_STACK_H
#define RLS_NATIVE_STACK_H

#include "machine.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct___uprobes {
	struct uprobes_state uprobes_state;
};

struct task_struct___uprobes {
	struct mm_struct___uprobes *mm;
	unsigned long sas_ss_sp; /* the stack that signal handlers may have for themselves */
	unsigned long sas_ss_size;
};

#pragma clang attribute pop

/* Whether where the function returns to has been replaced by that of an armed return probe. */
static __always_inline bool is_return_armed(struct task_struct *task,
					    const struct pt_regs___user *at_entry)
{
	struct task_struct___uprobes *current = (void *)task;
	__u64 trampoline = BPF_CORE_READ(current, mm, uprobes_state.xol_area, vaddr);

	return trampoline && return_address(at_entry) == trampoline;
}

static __always_inline bool is_on_signal_stack(struct task_struct *task, __u64 stack_pointer)
{
	struct task_struct___uprobes *current = (void *)task;
	__u64 start = BPF_CORE_READ(current, sas_ss_sp);

	return stack_pointer > start &&
	       stack_pointer - start <= BPF_CORE_READ(current, sas_ss_size);
}

#endif /* RLS_NATIVE_STACK_H */
