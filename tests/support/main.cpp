// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_RUNNER  // Catch2 2: this translation unit holds its implementation
#include "support/catch.hpp"

#include <cstdio>

namespace {

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

constexpr int exit_skipped = 77;  // SKIP_RETURN_CODE of every ctest test

int cases_run = 0;
int cases_skipped = 0;

struct CaseCounter : ListenerBase {
    using ListenerBase::ListenerBase;
    void testCaseStarting(const Catch::TestCaseInfo& /*info*/) override { ++cases_run; }
};

CATCH_REGISTER_LISTENER(CaseCounter)

}  // namespace

void rondo::test::note_skip(const char* reason) {
    ++cases_skipped;
    const std::string name = Catch::getResultCapture().getCurrentTestName();
    std::printf("SKIPPED: %s: %s\n", name.c_str(), reason);
}

int main(int argc, char* argv[]) {
    const int failures = Catch::Session().run(argc, argv);
    if (failures == 0 && cases_run > 0 && cases_skipped == cases_run) return exit_skipped;
    return failures;
}
