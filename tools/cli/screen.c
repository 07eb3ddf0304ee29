#include "tools/cli/screen.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define OTHER_SCREEN "\033[?1049h\033[?25l" /* and hide the cursor */
#define OWN_SCREEN   "\033[?25h\033[?1049l"

/* A line is cleared before it is written. Clearing it afterwards would erase the last character of a line as wide as
 * the screen. */
#define CLEAR_LINE "\033[K"

const char gm_screen_line_end[] = "\n" CLEAR_LINE;

static const int leaving[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { LEAVING = sizeof leaving / sizeof leaving[0] };

static volatile sig_atomic_t leave, stop, resized;
static bool taken, keys;
static struct termios before_keys;
static sigset_t
    waiting; /* the signal mask during sleep; at all other times the signals are blocked, so that none is lost */

static void caught(int number) {
    if (number == SIGTSTP)
        stop = 1;
    else if (number == SIGWINCH)
        resized = 1;
    else
        leave = 1;
}

/* A process in the background must leave the terminal alone. */
static bool is_in_front(void) { return tcgetpgrp(STDIN_FILENO) == getpgrp(); }

static void take_keys(void) {
    struct termios single;
    if (keys || !is_in_front() || tcgetattr(STDIN_FILENO, &before_keys))
        return;
    single = before_keys;
    single.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    single.c_cc[VMIN] = 1;
    single.c_cc[VTIME] = 0;
    keys = !tcsetattr(STDIN_FILENO, TCSANOW, &single);
}

static void leave_keys(void) {
    if (keys && is_in_front())
        tcsetattr(STDIN_FILENO, TCSANOW, &before_keys);
    keys = false;
}

static void own(const char *what) {
    fputs(what, stdout);
    fflush(stdout);
}

void gm_screen_catch(bool screen) {
    struct sigaction action = {.sa_handler = caught};
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int i = 0; i < LEAVING; i++) {
        struct sigaction before;
        if (!sigaction(leaving[i], NULL, &before) && before.sa_handler == SIG_IGN && leaving[i] != SIGINT)
            continue; /* ignored, for instance under nohup */
        sigaction(leaving[i], &action, NULL);
        sigaddset(&blocked, leaving[i]);
    }
    signal(SIGPIPE, SIG_IGN);
    if (screen) {
        sigaction(SIGTSTP, &action, NULL);
        sigaction(SIGWINCH, &action, NULL);
        sigaddset(&blocked, SIGTSTP);
        sigaddset(&blocked, SIGWINCH);
    }
    sigprocmask(SIG_BLOCK, &blocked, &waiting);
    for (int i = 0; i < LEAVING; i++)
        sigdelset(&waiting, leaving[i]);
    if (screen) {
        own(OTHER_SCREEN);
        take_keys();
    }
    taken = screen;
}

void gm_screen_release(void) {
    leave_keys();
    if (taken)
        own(OWN_SCREEN);
    taken = false;
}

void gm_screen_size(unsigned *width, unsigned *height) {
    struct winsize size;
    bool known = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col && size.ws_row;
    *width = known ? size.ws_col : 80;
    *height = known ? size.ws_row : 24;
}

void gm_screen_frame_begin(void) { fputs("\033[H" CLEAR_LINE, stdout); }

void gm_screen_frame_end(void) {
    fputs("\033[J", stdout);
    fflush(stdout);
}

/* Restores the terminal and stops the process. */
static void stop_now(void) {
    struct sigaction action = {.sa_handler = SIG_DFL}, mine;
    sigset_t only, before;
    leave_keys();
    own(OWN_SCREEN);
    sigaction(SIGTSTP, &action, &mine);
    sigemptyset(&only);
    sigaddset(&only, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &only, &before); /* the process stops here */
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigaction(SIGTSTP, &mine, NULL);
    own(OTHER_SCREEN);
    take_keys();
    stop = 0;
}

enum gm_screen_event gm_screen_wait(uint64_t deadline_ns, char *key) {
    fd_set input;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t at = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec,
             left = deadline_ns > at ? deadline_ns - at : 0;
    struct timespec time = {(time_t)(left / 1000000000ull), (long)(left % 1000000000ull)};
    FD_ZERO(&input);
    if (keys && is_in_front())
        FD_SET(STDIN_FILENO, &input);
    int ready = pselect(STDIN_FILENO + 1, &input, NULL, NULL, &time, &waiting);
    if (ready < 0 && errno != EINTR)
        return GM_SCREEN_LEAVE;
    if (leave)
        return GM_SCREEN_LEAVE;
    if (stop) {
        stop_now();
        return GM_SCREEN_REDRAW;
    }
    if (resized) {
        resized = 0;
        return GM_SCREEN_REDRAW;
    }
    if (ready > 0 && read(STDIN_FILENO, key, 1) == 1)
        return GM_SCREEN_KEY;
    keys &= ready <= 0; /* the terminal is gone */
    return ready > 0 ? GM_SCREEN_REDRAW : GM_SCREEN_TIME;
}
