// Starting CUPTI.
#ifndef RLS_CUPTI_START_H
#define RLS_CUPTI_START_H

// Both return at once, print nothing, and leave the reason in a status record. `environment`:
// NAME=VALUE, each with its NUL, an empty one at the end.
void rls_cupti_start(void);
void rls_cupti_start_late(const char* environment);

#endif  // RLS_CUPTI_START_H
