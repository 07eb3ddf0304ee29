#include "spgemm/gpu_estimates.h"
#include "spgemm/gpu_rows.h"

static bool sampled(struct spg_method *method, struct spg_estimates *e, struct spg_error *error) {
    struct spg_work w = {0};
    bool done =
        spg_work_make(&w, method, error) && spg_work_totals(&w, true, error) && spg_work_sample(&w, NULL, error);
    e->sampled = (double)w.totals.bound * (double)w.entries_per_product;
    spg_work_drop(&w);
    return done;
}

static bool cohen(struct spg_method *method, struct spg_estimates *e, struct spg_error *error) {
    struct spg_gpu *g = &method->gpu;
    struct spg_block drawn = {0}, reached = {0}, total = {0};
    size_t keys = SPG_COHEN_KEYS * sizeof(float);
    bool done =
        spg_block_make(&drawn, &g->memory, (size_t)g->b->columns * keys, "drawn keys", error) &&
        spg_block_make(&reached, &g->memory, (size_t)g->b->rows * keys, "reached keys", error) &&
        spg_block_make(&total, &g->memory, sizeof e->cohen, "an estimate", error) &&
        spg_cuda(cudaMemsetAsync(total.at, 0, sizeof e->cohen, g->memory.stream), "clearing", error) &&
        spg_cuda(spg_launch_cohen(g->a, g->b, SPG_SAMPLE_SEED, drawn.at, reached.at, total.at, g->memory.stream),
                 "keys", error) &&
        spg_fetch(g->memory.stream, &e->cohen, total.at, sizeof e->cohen, "an estimate", error);
    spg_block_drop(&drawn, &g->memory);
    spg_block_drop(&reached, &g->memory);
    spg_block_drop(&total, &g->memory);
    return done;
}

static bool timed(struct spg_method *method,
                  bool (*make)(struct spg_method *, struct spg_estimates *, struct spg_error *),
                  struct spg_estimates *e, double *ms, struct spg_error *error) {
    struct spg_gpu *g = &method->gpu;
    float took = 0;
    bool done = spg_cuda(cudaEventRecord(g->started, g->memory.stream), "event", error) && make(method, e, error) &&
                spg_cuda(cudaEventRecord(g->finished, g->memory.stream), "event", error) &&
                spg_cuda(cudaEventSynchronize(g->finished), "an estimate", error) &&
                spg_cuda(cudaEventElapsedTime(&took, g->started, g->finished), "event", error);
    *ms = (double)took;
    return done;
}

bool spg_method_estimate(void *pointer, struct spg_estimates *e, struct spg_error *error) {
    struct spg_method *method = pointer;
    struct spg_memory product = method->gpu.memory;
    bool done = true;
    /* The memory of the estimates is not part of the product, and C stays. */
    method->gpu.memory.limit = 0;
    *e = (struct spg_estimates){0};
    /* The first pass also loads the kernels; the second one is measured. */
    for (int i = 0; i < 2 && done; i++)
        done = timed(method, sampled, e, &e->sampled_ms, error) && timed(method, cohen, e, &e->cohen_ms, error);
    method->gpu.memory = product;
    return done;
}
