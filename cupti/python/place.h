// The places in the program that forward passes are called from, and what they led to.
#ifndef RLS_PLACE_H
#define RLS_PLACE_H

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "thread_phase.h"

// Returns the place of the call under way, four frames deep, as one number; 0: it is not known.
// A code object that is part of it must be kept, lest another gets its address.
uint64_t rls_place_of_call(void);

// Returns what the place is settled to be; RLS_NO_PHASE: it is not.
enum rls_phase rls_place_phase(uint64_t place);

// Settles it; nothing where there is no room.
void rls_place_settle(uint64_t place, enum rls_phase phase);

// Whether no more can be settled.
bool rls_places_are_full(void);

#endif  // RLS_PLACE_H
