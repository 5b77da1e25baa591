// SPDX-License-Identifier: Apache-2.0
#include "cli/file_limit.hpp"

#include <sys/resource.h>

namespace rondo::cli {

void raise_file_limit() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);  // if it may not, connections will say so
}

}  // namespace rondo::cli
