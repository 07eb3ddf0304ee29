// Times the allocation path of a program under one contender; alloc.py runs it for all of them and makes the table.
//
// usage: alloc [--allocator native|async|LIBRARY] [--rows PREFIX,...] [--samples N] [--passes N] [--memory]
// [--calibrate NANOSECONDS]
#include "bench.h"

#include <getopt.h>

#include <algorithm>
#include <sstream>

options bench;

int main(int argc, char **argv) {
    static const option known[] = {{"allocator", required_argument, nullptr, 'a'},
                                   {"rows", required_argument, nullptr, 'r'},
                                   {"samples", required_argument, nullptr, 's'},
                                   {"passes", required_argument, nullptr, 'p'},
                                   {"memory", no_argument, nullptr, 'm'},
                                   {"calibrate", required_argument, nullptr, 'c'},
                                   {nullptr, 0, nullptr, 0}};
    std::string allocator = "native", prefix;
    double calibrated = 0;
    for (int which; (which = getopt_long(argc, argv, "", known, nullptr)) != -1;)
        switch (which) {
        case 'a': allocator = optarg; break;
        case 's': bench.samples = std::max(1, std::atoi(optarg)); break;
        case 'p': bench.passes = std::atoi(optarg); break;
        case 'm': bench.memory = true; break;
        case 'c': calibrated = std::atof(optarg); break;
        case 'r':
            for (std::istringstream list(optarg); std::getline(list, prefix, ',');)
                bench.rows.push_back(prefix);
            break;
        default: return 2;
        }
    CHECK(cudaFree(nullptr));
    if (calibrated) {
        std::printf("%d\n", calibrate(calibrated));
        return 0;
    }
    bench.contender = find_allocator(allocator);
    pair_rows();
    kernel_rows();
    thread_rows();
    mixed_rows();
    pattern_rows();
    first_touch_rows();
    thrust_rows();
    // Up to here the process is one whose frees need not wait. These rows query streams and have pinned and managed
    // memory; GPUMEM_FREE=safe waits in every free from the first of them on.
    free_behind_row();
    busy_rows();
    managed_rows();
    return 0;
}
