/* Runs the program as a child process in the same process group. It keeps the terminal, it receives the signals sent to
 * gpumem, and its exit status becomes gpumem's. */
#include "tools/cli/launch.h"
#include "tools/cli/shown.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t child;

/* Forwards a signal that was sent to gpumem alone. The terminal sends its signals to the whole process group, so those
 * are not forwarded. */
static void forward(int number, siginfo_t *info, void *context) {
    int saved = errno;
    if (child > 0 && info->si_code <= 0 && info->si_pid != child)
        kill((pid_t)child, number);
    errno = saved;
}

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP, SIGWINCH};
#define FORWARDED (sizeof forwarded / sizeof forwarded[0])

static void exec_program(const char *path, char **argv, int report) {
    execv(path, argv);
    int error = errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(126);
    _exit(error == ENOENT ? 127 : 126);
}

/* Waits for the child. When the child stops, gpumem stops too, so that the shell sees a stopped job. */
static int wait_for(pid_t pid) {
    int status;
    for (;;) {
        pid_t got = waitpid(pid, &status, WUNTRACED);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return 1;
        if (!WIFSTOPPED(status))
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        raise(SIGSTOP);
        kill(pid, SIGCONT);
    }
}

int gm_child_run(const char *path, char **argv) {
    struct sigaction action = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART}, before[FORWARDED];
    sigset_t block, mask;
    int report[2];
    if (pipe2(report, O_CLOEXEC)) {
        gm_complain("%s", strerror(errno));
        return 126;
    }
    sigemptyset(&block);
    for (size_t i = 0; i < FORWARDED; i++)
        sigaddset(&block, forwarded[i]);
    sigprocmask(SIG_BLOCK, &block, &mask); /* no signal is lost between fork and the assignment of `child` */
    for (size_t i = 0; i < FORWARDED; i++)
        sigaction(forwarded[i], &action, &before[i]);
    pid_t pid = fork();
    if (pid == 0) {
        for (size_t i = 0; i < FORWARDED; i++)
            sigaction(forwarded[i], &before[i], NULL);
        sigprocmask(SIG_SETMASK, &mask, NULL);
        exec_program(path, argv, report[1]);
    }
    int error = pid < 0 ? errno : 0;
    child = pid;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    close(report[1]);
    int status = 126;
    if (pid > 0) {
        ssize_t got;
        while ((got = read(report[0], &error, sizeof error)) < 0 && errno == EINTR)
            ;
        if (got != sizeof error)
            error = 0;
        status = wait_for(pid);
    }
    if (error)
        gm_complain("%s: %s", path, strerror(error));
    close(report[0]);
    child = 0;
    return status;
}
