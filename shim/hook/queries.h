#ifndef GM_HOOK_QUERIES_H
#define GM_HOOK_QUERIES_H

#include "shim/hook/hook.h"

/* Puts hooks in front of the queries of streams and events where GPUMEM_FREE lets frees leave work in flight. */
GM_INTERNAL void gm_queries_start(void);
/* True when the call has such a hook, which itself finds out whether work in flight decides the answer. */
GM_INTERNAL bool gm_queries_answers(unsigned call_number);

#endif
