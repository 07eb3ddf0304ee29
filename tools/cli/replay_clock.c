/* Replaces the library's clock by the trace's time during a replay. The linker redirects this program's calls of the
 * clock to here (--wrap). Without a replay they continue to the real clock. */
#include "tools/cli/replay.h"

#include "shim/base/base.h"

uint64_t gm_replay_time; /* ns; 0 = the real time */

uint64_t __real_gm_ticks(void);
uint64_t __real_gm_ticks_to_ns(uint64_t ticks);
uint64_t __real_gm_ticks_span_ns(uint64_t ticks);
uint64_t __real_gm_now_ns(void);
uint64_t __wrap_gm_ticks(void);
uint64_t __wrap_gm_ticks_to_ns(uint64_t ticks);
uint64_t __wrap_gm_ticks_span_ns(uint64_t ticks);
uint64_t __wrap_gm_now_ns(void);

uint64_t __wrap_gm_ticks(void) { return gm_replay_time ? gm_replay_time : __real_gm_ticks(); }

uint64_t __wrap_gm_ticks_to_ns(uint64_t ticks) { return gm_replay_time ? ticks : __real_gm_ticks_to_ns(ticks); }

uint64_t __wrap_gm_ticks_span_ns(uint64_t ticks) { return gm_replay_time ? ticks : __real_gm_ticks_span_ns(ticks); }

uint64_t __wrap_gm_now_ns(void) { return gm_replay_time ? gm_replay_time : __real_gm_now_ns(); }
