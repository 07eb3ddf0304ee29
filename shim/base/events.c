#include "shim/base/events.h"

struct gm_events gm_events;
