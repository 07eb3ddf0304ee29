/* A screen that is drawn again and again, and the signals that come in between. */
#ifndef GM_SCREEN_H
#define GM_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

enum gm_screen_event { GM_SCREEN_TIME, GM_SCREEN_REDRAW, GM_SCREEN_LEAVE };

/* What ends a line of a frame: clears what an earlier frame had in the next one. */
extern const char gm_screen_line_end[];

/* Catches the signals that end or interrupt; with `screen` also takes the terminal's other screen, until
 * gm_screen_release. A broken pipe is an error of writing then, no signal. */
void gm_screen_catch(bool screen);
void gm_screen_release(void);

void gm_screen_size(unsigned *width, unsigned *height); /* 80 x 24 where it is not known */
void gm_screen_frame_begin(void);
void gm_screen_frame_end(void);

/* Sleeps until `deadline_ns` of CLOCK_MONOTONIC or a signal: REDRAW when the terminal has another size or is ours again
 * after a stop, LEAVE when the user wants to. */
enum gm_screen_event gm_screen_wait(uint64_t deadline_ns);

#endif
