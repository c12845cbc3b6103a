// The thread that fetches records from CUPTI and writes them into its ring.
#ifndef RLS_CUPTI_FLUSH_H
#define RLS_CUPTI_FLUSH_H

#include <stdbool.h>

// False: no thread can be started.
bool rls_cupti_start_thread(void);

#endif  // RLS_CUPTI_FLUSH_H
