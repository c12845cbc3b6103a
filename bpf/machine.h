/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What differs between machines: registers, system calls, and where a call returns to. Each has a
 * header with the same functions. __TARGET_ARCH_ is libbpf's name for the choice.
 */
#ifndef RLS_MACHINE_H
#define RLS_MACHINE_H

#include "os_types.h"
#include "system_calls.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#if defined(__TARGET_ARCH_arm64)
#include "machine_arm64.h"
#elif defined(__TARGET_ARCH_x86)
#include "machine_x86.h"
#else
#error "made for x86 and arm64"
#endif

#endif /* RLS_MACHINE_H */
