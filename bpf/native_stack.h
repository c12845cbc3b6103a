/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the native probes read of the thread that they interrupt: its registers and its stacks. */
#ifndef RLS_NATIVE_STACK_H
#define RLS_NATIVE_STACK_H

#include "os_types.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* The context of a uprobe program: the registers of the interrupted code. */
struct pt_regs___user {
	unsigned long sp;
};

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

/* A pushed return address. */
#define SLOT_BYTES 8

/* Whether the return address at `slot` has been replaced by that of an armed return probe. */
static __always_inline bool is_return_armed(struct task_struct *task, __u64 slot)
{
	struct task_struct___uprobes *current = (void *)task;
	__u64 trampoline = BPF_CORE_READ(current, mm, uprobes_state.xol_area, vaddr);
	__u64 address = 0;

	if (!trampoline || bpf_probe_read_user(&address, sizeof(address), (void *)slot))
		return false;
	return address == trampoline;
}

static __always_inline bool is_on_signal_stack(struct task_struct *task, __u64 stack_pointer)
{
	struct task_struct___uprobes *current = (void *)task;
	__u64 start = BPF_CORE_READ(current, sas_ss_sp);

	return stack_pointer > start &&
	       stack_pointer - start <= BPF_CORE_READ(current, sas_ss_size);
}

#endif /* RLS_NATIVE_STACK_H */
