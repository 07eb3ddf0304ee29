/* workspace_trsm [--m ROWS] [--n COLUMNS] [--calls CALLS]: solves a triangular system with the memory that a query asks
 * for, with little memory, and with too little. Each solution is compared with the host's. The marks "steady state" and
 * "end of steady state" stand in gpumem's trace around calls that neither allocate nor wait. */
#include "trsm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/check.h"

enum { LEAST_M = 32, LEAST_N = 2, MOST = 32768 }; /* one column must need fewer chunks of 64 bytes than all */

struct problem {
    int m, n, calls;
    float alpha;
    float *a, *b, *got; /* host */
    double *expected;   /* host */
    float *device_a, *device_b, *device_alpha;
    size_t a_bytes, b_bytes;
    cudaStream_t stream;
    struct trsm_handle *handle;
};

static int wrong; /* anything that is not as it should be */

static void must(enum gpumem_workspace_status status, const char *what) {
    if (status == GPUMEM_WORKSPACE_SUCCESS)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, gpumem_workspace_status_name(status), gpumem_last_error());
    exit(1);
}

/* ---- problem */

static float random_value(void) {
    static unsigned seed = 1;
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / (1 << 24) - 0.5f;
}

/* The reference: forward substitution in double precision. */
static void solve_on_host(struct problem *p) {
    for (int j = 0; j < p->n; j++) {
        double *x = p->expected + (size_t)j * p->m;
        for (int i = 0; i < p->m; i++) {
            double sum = (double)p->alpha * p->b[(size_t)j * p->m + i];
            for (int k = 0; k < i; k++)
                sum -= p->a[(size_t)k * p->m + i] * x[k];
            x[i] = sum / p->a[(size_t)i * p->m + i];
        }
    }
}

static void *host(size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory)
        exit(1);
    return memory;
}

static void make_problem(struct problem *p) {
    size_t m = (size_t)p->m, elements = m * (size_t)p->n;
    p->alpha = 0.75f;
    p->a_bytes = m * m * sizeof(float);
    p->b_bytes = elements * sizeof(float);
    p->a = host(p->a_bytes);
    p->b = host(p->b_bytes);
    p->got = host(p->b_bytes);
    p->expected = host(elements * sizeof(double));
    for (size_t column = 0; column < m; column++)
        for (size_t row = column; row < m; row++)
            p->a[column * m + row] = row == column ? 2 + random_value() : random_value() / (float)m;
    for (size_t i = 0; i < elements; i++)
        p->b[i] = random_value();
    solve_on_host(p);
    CHECK(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc((void **)&p->device_a, p->a_bytes));
    CHECK(cudaMalloc((void **)&p->device_b, p->b_bytes));
    CHECK(cudaMalloc((void **)&p->device_alpha, sizeof(float)));
    CHECK(cudaMemcpy(p->device_a, p->a, p->a_bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(p->device_alpha, &p->alpha, sizeof(float), cudaMemcpyHostToDevice));
    must(trsm_create(p->stream, &p->handle), "trsm_create");
}

static void end_problem(struct problem *p) {
    trsm_destroy(p->handle);
    CHECK(cudaFree(p->device_a));
    CHECK(cudaFree(p->device_b));
    CHECK(cudaFree(p->device_alpha));
    CHECK(cudaStreamDestroy(p->stream));
    free(p->a);
    free(p->b);
    free(p->got);
    free(p->expected);
}

/* ---- solves */

static enum gpumem_workspace_status solve(struct problem *p, const float *alpha) {
    return trsm_solve(p->handle, p->m, p->n, alpha, p->device_a, p->m, p->device_b, p->m);
}

static int is_right(const struct problem *p) {
    for (size_t i = 0; i < (size_t)p->m * (size_t)p->n; i++)
        if (!(fabs(p->got[i] - p->expected[i]) <= 1e-4 * (1 + fabs(p->expected[i]))))
            return 0;
    return 1;
}

/* Solves once from the original B and prints status and outcome. */
static void try_once(struct problem *p, const char *how, const float *alpha, enum gpumem_workspace_status expected) {
    size_t size;
    CHECK(cudaMemcpyAsync(p->device_b, p->b, p->b_bytes, cudaMemcpyHostToDevice, p->stream));
    enum gpumem_workspace_status status = solve(p, alpha);
    CHECK(cudaMemcpyAsync(p->got, p->device_b, p->b_bytes, cudaMemcpyDeviceToHost, p->stream));
    CHECK(cudaStreamSynchronize(p->stream));
    must(gpumem_workspace_get_size(trsm_workspace(p->handle), &size), "get_size");
    int done = status == GPUMEM_WORKSPACE_SUCCESS || status == GPUMEM_WORKSPACE_PERF_DEGRADED;
    const char *outcome = done && is_right(p)                          ? "right"
                          : !done && !memcmp(p->got, p->b, p->b_bytes) ? "B is as it was"
                                                                       : "WRONG";
    printf("%s, %zu bytes: %s, %s\n", how, size, gpumem_workspace_status_name(status), outcome);
    wrong += status != expected || !strcmp(outcome, "WRONG");
}

/* The best size for the problem; the queried call does no work. */
static size_t ask(struct problem *p) {
    size_t best;
    struct gpumem_workspace *workspace = trsm_workspace(p->handle);
    must(gpumem_workspace_start_query(workspace), "start_query");
    enum gpumem_workspace_status first = solve(p, &p->alpha), second = solve(p, &p->alpha);
    must(gpumem_workspace_stop_query(workspace, &best), "stop_query");
    printf("query: %s, then %s, %zu bytes\n", gpumem_workspace_status_name(first), gpumem_workspace_status_name(second),
           best);
    wrong += first != GPUMEM_WORKSPACE_SIZE_INCREASED || second != GPUMEM_WORKSPACE_SIZE_UNCHANGED;
    return best;
}

/* Each call solves with what the last one left in B. */
static void steady_state(struct problem *p) {
    int failed = 0;
    CHECK(cudaStreamSynchronize(p->stream));
    gpumem_mark("steady state");
    for (int i = 0; i < p->calls; i++)
        failed += solve(p, &p->alpha) != GPUMEM_WORKSPACE_SUCCESS;
    gpumem_mark("end of steady state");
    CHECK(cudaStreamSynchronize(p->stream));
    printf("steady state: %d calls, %d failed\n", p->calls, failed);
    wrong += failed;
}

static void run(struct problem *p) {
    struct gpumem_workspace *workspace = trsm_workspace(p->handle);
    try_once(p, "managed", &p->alpha, GPUMEM_WORKSPACE_SUCCESS);
    size_t best = ask(p), x_bytes = (p->b_bytes + 63) / 64 * 64, column = ((size_t)p->m * sizeof(float) + 63) / 64 * 64;
    must(gpumem_workspace_set_size(workspace, best), "set_size");
    try_once(p, "fixed as queried", &p->alpha, GPUMEM_WORKSPACE_SUCCESS);
    steady_state(p);
    gpumem_workspace_set_pointer_mode(workspace, GPUMEM_POINTER_MODE_DEVICE);
    try_once(p, "alpha on the device", p->device_alpha, GPUMEM_WORKSPACE_SUCCESS);
    gpumem_workspace_set_pointer_mode(workspace, GPUMEM_POINTER_MODE_HOST);
    must(gpumem_workspace_set_size(workspace, best - 64), "set_size");
    try_once(p, "a little less", &p->alpha, GPUMEM_WORKSPACE_PERF_DEGRADED);
    must(gpumem_workspace_set_size(workspace, best - x_bytes + column), "set_size");
    try_once(p, "memory for one column", &p->alpha, GPUMEM_WORKSPACE_PERF_DEGRADED);
    must(gpumem_workspace_set_size(workspace, 64), "set_size");
    try_once(p, "too little", &p->alpha, GPUMEM_WORKSPACE_MEMORY_ERROR);
    must(gpumem_workspace_set_size(workspace, 0), "set_size");
    try_once(p, "managed again", &p->alpha, GPUMEM_WORKSPACE_SUCCESS);
}

/* ---- arguments */

static int usage(FILE *to, int status) {
    fputs("usage: workspace_trsm [--m ROWS] [--n COLUMNS] [--calls CALLS]\n", to);
    return status;
}

static int refuse(const char *option, const char *value) {
    fprintf(stderr,
            "workspace_trsm: '%s %s' is wrong; accepted: --m from %d, --n from %d, --calls from 1, each up to %d\n",
            option, value, LEAST_M, LEAST_N, MOST);
    return usage(stderr, 2);
}

static int read_count(const char *text, int lowest, int *value) {
    char *end;
    long count = strtol(text, &end, 10);
    *value = (int)count;
    return *text && !*end && count >= lowest && count <= MOST;
}

int main(int argc, char **argv) {
    struct problem p = {.m = 200, .n = 60, .calls = 8};
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--help"))
            return usage(stdout, 0);
        if (!(!strcmp(argv[i], "--m")       ? read_count(value, LEAST_M, &p.m)
              : !strcmp(argv[i], "--n")     ? read_count(value, LEAST_N, &p.n)
              : !strcmp(argv[i], "--calls") ? read_count(value, 1, &p.calls)
                                            : 0))
            return refuse(argv[i], value);
    }
    make_problem(&p);
    run(&p);
    end_problem(&p);
    printf("%s\n", wrong ? "FAILED" : "ok workspace_trsm");
    return wrong != 0;
}
