/* What the adaptor "track" needs from the call sites (site.h). */
#ifndef GM_RESOURCES_H
#define GM_RESOURCES_H

/* Call stacks of at least `frames` frames are stored from now on, and reports of "track" show them. May be called
 * again. */
void gm_resources_track(unsigned frames);

#endif
