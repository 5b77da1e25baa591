// SPDX-License-Identifier: Apache-2.0
#include "held.hpp"

#include "process.hpp"
#include "python.hpp"

#include <mutex>
#include <vector>

namespace rondo::python::detail {
namespace {

struct Graveyard {
    std::mutex mutex;
    std::vector<std::unique_ptr<Remains>> remains;
};

// Never destroyed: threads may come here while the process exits.
Graveyard& graveyard() {
    static auto* const instance = new Graveyard;
    return *instance;
}

int empty_graveyard(void* /*unused*/) {
    std::unique_lock lock{graveyard().mutex};
    const auto remains = std::exchange(graveyard().remains, {});
    lock.unlock();  // destroying them may run any Python code
    return 0;
}

}  // namespace

void bury(std::unique_ptr<Remains> remains) noexcept {
    if (was_exit_begun()) return (void)remains.release();  // the process ends anyway
    if (PyGILState_Check() != 0) return;                   // destroyed here
    {
        const std::lock_guard lock{graveyard().mutex};
        graveyard().remains.push_back(std::move(remains));
    }
    // Needs no GIL. Its queue may be full; then the next one calls for us too.
    Py_AddPendingCall(empty_graveyard, nullptr);
}

}  // namespace rondo::python::detail
