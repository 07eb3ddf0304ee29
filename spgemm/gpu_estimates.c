/* Both estimates of nnz(C) on the device, each with what it takes. */
#include "spgemm/gpu_rows.h"

static bool sampled(struct spg_way *way, struct spg_estimates *e, struct spg_error *error) {
    struct spg_work w = {0};
    bool done = spg_work_make(&w, way, error) && spg_work_totals(&w, error) && spg_work_sample(&w, NULL, error);
    e->sampled = (double)w.totals.bound * (double)w.shrink;
    spg_work_drop(&w);
    return done;
}

static bool cohen(struct spg_way *way, struct spg_estimates *e, struct spg_error *error) {
    struct spg_gpu *g = &way->gpu;
    struct spg_block drawn = {0}, reached = {0}, total = {0};
    size_t keys = SPG_COHEN_KEYS * sizeof(float);
    bool done =
        spg_block_make(&drawn, &g->memory, (size_t)g->b->columns * keys, "drawn keys", error) &&
        spg_block_make(&reached, &g->memory, (size_t)g->b->rows * keys, "reached keys", error) &&
        spg_block_make(&total, &g->memory, sizeof e->cohen, "an estimate", error) &&
        spg_cuda(cudaMemsetAsync(total.at, 0, sizeof e->cohen, NULL), "clearing", error) &&
        spg_cuda(spg_launch_cohen(g->a, g->b, SPG_SAMPLE_SEED, drawn.at, reached.at, total.at), "keys", error) &&
        spg_cuda(cudaMemcpy(&e->cohen, total.at, sizeof e->cohen, cudaMemcpyDeviceToHost), "an estimate", error);
    spg_block_drop(&drawn, &g->memory);
    spg_block_drop(&reached, &g->memory);
    spg_block_drop(&total, &g->memory);
    return done;
}

static bool timed(struct spg_way *way, bool (*make)(struct spg_way *, struct spg_estimates *, struct spg_error *),
                  struct spg_estimates *e, double *ms, struct spg_error *error) {
    struct spg_gpu *g = &way->gpu;
    float took = 0;
    bool done = spg_cuda(cudaEventRecord(g->begin, NULL), "event", error) && make(way, e, error) &&
                spg_cuda(cudaEventRecord(g->end, NULL), "event", error) &&
                spg_cuda(cudaEventSynchronize(g->end), "an estimate", error) &&
                spg_cuda(cudaEventElapsedTime(&took, g->begin, g->end), "event", error);
    *ms = (double)took;
    return done;
}

bool spg_way_estimate(void *pointer, struct spg_estimates *e, struct spg_error *error) {
    struct spg_way *way = pointer;
    struct spg_memory product = way->gpu.memory;
    bool done = true;
    /* What is taken here is no part of the product, whose C stays. */
    way->gpu.memory.limit = 0;
    *e = (struct spg_estimates){0};
    /* The first time loads code. */
    for (int i = 0; i < 2 && done; i++)
        done = timed(way, sampled, e, &e->sampled_ms, error) && timed(way, cohen, e, &e->cohen_ms, error);
    way->gpu.memory = product;
    return done;
}
