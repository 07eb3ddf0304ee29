/* One thread makes the process's first CUDA call while another loads a library whose constructor calls CUDA as well
 * and so holds the dynamic linker's lock: loading PLUGIN MICROSECONDS. The second thread begins so many microseconds
 * later. With an empty PLUGIN ("") it forks instead, and the child calls CUDA. */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <time.h>

#include "loading.h"

static sem_t begins;

static void *work(void *unused) {
    sem_post(&begins);
    use_memory(30000);
    return NULL;
}

static void fork_and_use(void) {
    int status = -1;
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        alarm(40);
        use_memory(40000);
        exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

int main(int count, char **argument) {
    EXPECT(count == 3);
    pthread_t thread;
    long delay = atol(argument[2]) * 1000;
    alarm(40);
    EXPECT(sem_init(&begins, 0, 0) == 0 && pthread_create(&thread, NULL, work, NULL) == 0);
    EXPECT(sem_wait(&begins) == 0);
    nanosleep(&(struct timespec){delay / 1000000000, delay % 1000000000}, NULL);
    if (!argument[1][0])
        fork_and_use();
    else if (!dlopen(argument[1], RTLD_NOW))
        fail(dlerror(), __LINE__, 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    use_memory(50000);
    printf("ok loading\n");
    return 0;
}
