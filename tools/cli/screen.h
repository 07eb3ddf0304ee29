/* Draws a terminal screen repeatedly and handles the signals meanwhile. */
#ifndef GM_SCREEN_H
#define GM_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

enum gm_screen_event { GM_SCREEN_TIME, GM_SCREEN_REDRAW, GM_SCREEN_LEAVE, GM_SCREEN_KEY };

/* Ends a line of a frame; also clears the next line of an earlier frame. */
extern const char gm_screen_line_end[];

/* Handles the signals that end or interrupt the program. With `screen` it also switches to the terminal's alternate
 * screen until gm_screen_release, and takes single keys where standard input is that terminal. A broken pipe then is a
 * write error and not a signal. */
void gm_screen_catch(bool screen);
void gm_screen_release(void);

void gm_screen_size(unsigned *width, unsigned *height); /* 80 x 24 if unknown */
void gm_screen_frame_begin(void);
void gm_screen_frame_end(void);

/* Sleeps until `deadline_ns` of CLOCK_MONOTONIC or a signal. REDRAW: the terminal has another size, or the process
 * continues after a stop. LEAVE: the user wants to end. KEY: the user pressed *key. */
enum gm_screen_event gm_screen_wait(uint64_t deadline_ns, char *key);

#endif
