// SPDX-License-Identifier: Apache-2.0
#include "pinning/resolve.hpp"

#include "pinning/dynamic_library.hpp"
#include "pinning/loaded_objects.hpp"
#include "support.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <dlfcn.h>

using rondo::PinError;
using rondo::RuntimeUnavailable;
using rondo::detail::DynamicLibrary;
using rondo::detail::loaded_objects;
using rondo::detail::Resolution;
using rondo::detail::resolve;
using rondo::detail::SearchPlan;
using rondo::test::contains;
using rondo::test::ScopedVariable;
using rondo::test::StubMachine;

namespace fs = std::filesystem;

namespace {

using Attempts = std::vector<RuntimeUnavailable::Attempt>;

/// A machine on which nothing is installed.
SearchPlan nothing() {
    SearchPlan plan;
    plan.sonames = {"libcudart.so.9013", "libcudart.so.9012"};
    plan.roots = {{"CONDA_PREFIX", ""}, {"CUDA_PATH", ""}, {"CUDA_HOME", ""}};
    plan.driver_soname = "libcuda-of-nobody.so.1";
    return plan;
}

std::string taken(const Resolution& resolution) {
    if (resolution.api == nullptr) return "nothing";
    CHECK(resolution.attempts.back().outcome.starts_with("taken: "));
    CHECK(resolution.attempts.back().rung == resolution.rung);
    return resolution.rung;
}

/// The rungs that were recorded as empty.
std::vector<std::string> empty_rungs(const Attempts& attempts) {
    std::vector<std::string> rungs;
    for (const auto& attempt : attempts) {
        if (attempt.candidate == "(none)") rungs.push_back(attempt.rung);
    }
    return rungs;
}

/// The last attempt with that outcome in it.
bool has(const Attempts& attempts, const std::string& candidate, const std::string& outcome) {
    return std::ranges::any_of(attempts, [&](const auto& attempt) {
        return attempt.candidate == candidate && attempt.outcome.find(outcome) != outcome.npos;
    });
}

}  // namespace

TEST_CASE("resolve: where nothing exists every rung has its line, in order") {
    const auto found = resolve(nothing());
    CHECK(found.api == nullptr);
    std::vector<std::string> lines;
    for (const auto& attempt : found.attempts)
        lines.push_back(attempt.rung + ": " + attempt.candidate);
    CHECK(lines == std::vector<std::string>{
                       "override: (none)", "already-loaded scan: (none)",
                       "installed-wheel search: (none)", "soname load: libcudart.so.9013",
                       "soname load: libcudart.so.9012", "CONDA_PREFIX: (none)",
                       "CUDA_PATH: (none)", "CUDA_HOME: (none)", "toolkit directories: (none)",
                       "driver API: libcuda-of-nobody.so.1"});
    for (const auto& attempt : found.attempts) CHECK_FALSE(attempt.outcome.empty());
    CHECK(has(found.attempts, "libcudart.so.9013", "cannot open shared object file"));
}

TEST_CASE("resolve: a library in use comes before everything that would have to be loaded") {
    const StubMachine machine;
    auto plan = nothing();
    plan.driver_soname = machine.driver();
    CHECK(taken(resolve(plan)) == "driver API");

    (void)machine.runtime("toolkit/lib64/libcudart.so.12");
    plan.toolkits = {machine / "toolkit"};
    CHECK(taken(resolve(plan)) == "toolkit directories");

    (void)machine.runtime("home/lib/libcudart.so.12");
    plan.roots[2].path = machine / "home";
    CHECK(taken(resolve(plan)) == "CUDA_HOME");

    (void)machine.runtime("path/lib64/libcudart.so.12");
    plan.roots[1].path = machine / "path";
    CHECK(taken(resolve(plan)) == "CUDA_PATH");

    (void)machine.runtime("conda/lib/libcudart.so.12");
    plan.roots[0].path = machine / "conda";
    CHECK(taken(resolve(plan)) == "CONDA_PREFIX");

    plan.sonames = {machine.runtime("system/libcudart.so.12")};
    CHECK(taken(resolve(plan)) == "soname load");

    (void)machine.runtime("site/nvidia/cuda_runtime/lib/libcudart.so.12");
    plan.site_directories = {machine / "site"};
    CHECK(taken(resolve(plan)) == "installed-wheel search");

    const auto loaded = machine.runtime("in use/libcudart-8774224f.so.12");
    REQUIRE(DynamicLibrary::open(loaded));
    plan.loaded_objects = {loaded};
    const auto found = resolve(plan);
    CHECK(taken(found) == "already-loaded scan");
    CHECK(found.library == loaded.string());
    CHECK(empty_rungs(found.attempts) == std::vector<std::string>{"override"});

    plan.forced = {machine.runtime("forced/libcudart.so.12"), "RONDO_CUDART"};
    CHECK(taken(resolve(plan)) == "override by RONDO_CUDART");
}

TEST_CASE(
    "resolve: the CUDA 13 wheel comes before the CUDA 12 wheel, unless the driver is too old") {
    const StubMachine machine;
    const auto old = machine.runtime("nvidia/cuda_runtime/lib/libcudart.so.12");
    const auto newer = machine.runtime("nvidia/cu13/lib/libcudart.so.13");
    auto plan = nothing();
    plan.site_directories = {machine.path()};
    CHECK(resolve(plan).library == newer.string());

    const ScopedVariable fail{"RONDO_STUB_FAIL", "cu13@cudaGetDeviceCount:0:35"};
    machine.forget_calls();
    const auto found = resolve(plan);
    CHECK(found.library == old.string());
    CHECK(has(found.attempts, newer, "cudaGetDeviceCount: cudaErrorInsufficientDriver (35)"));
    CHECK(has(found.attempts, newer, "update the driver"));

    // The error of the one that was passed over is not left behind for others in this process.
    const auto calls = machine.calls();
    REQUIRE(calls.size() == 3);
    CHECK(calls[1].function == "cudaGetLastError");
    CHECK(calls[1]["library"] == newer.string());
}

TEST_CASE("resolve: a library without a symbol or without a device is passed over") {
    const StubMachine machine;
    const auto partial = machine.partial_runtime("a/lib/libcudart.so.12");
    const auto blind = machine.runtime("b/lib/libcudart.so.12");
    const auto good = machine.runtime("c/lib/libcudart.so.12");
    auto plan = nothing();
    plan.roots = {{"A", machine / "a"}, {"B", machine / "b"}, {"C", machine / "c"}};
    const auto found = resolve(plan);
    CHECK(taken(found) == "B");
    CHECK(has(found.attempts, partial, "it lacks cudaHostGetFlags"));
    CHECK(found.device_count == 1);

    const ScopedVariable none{"RONDO_STUB_DEVICES", "0"};
    const auto without = resolve(plan);
    CHECK(without.api == nullptr);
    CHECK(has(without.attempts, blind, "it sees no device"));
    CHECK(has(without.attempts, good, "it sees no device"));
}

TEST_CASE("resolve: a library is probed once, on the earliest rung, whatever its names") {
    const StubMachine machine;
    const ScopedVariable none{"RONDO_STUB_DEVICES", "0"};
    const auto file = machine.runtime("a/lib/libcudart.so.12");
    fs::create_directories(machine / "b/lib");
    fs::create_symlink(file, machine / "b/lib/libcudart.so.12");
    auto plan = nothing();
    plan.loaded_objects = {file};
    REQUIRE(DynamicLibrary::open(file));
    plan.sonames = {file};
    plan.roots = {{"A", machine / "a"}, {"B", machine / "b"}};
    const auto found = resolve(plan);
    CHECK(machine.calls("cudaGetDeviceCount").size() == 1);
    CHECK(found.attempts[1].rung == "already-loaded scan");
    CHECK(found.attempts[1].outcome == "it sees no device");
    std::vector<std::string> repeated;
    for (const auto& attempt : found.attempts) {
        if (attempt.outcome.starts_with("probed above")) repeated.push_back(attempt.rung);
    }
    CHECK(repeated == std::vector<std::string>{"soname load", "A", "B"});
    CHECK(
        has(found.attempts, machine / "b/lib/libcudart.so.12", "probed above as " + file.string()));
}

TEST_CASE("resolve: an unusable override is an error, and nothing else is tried") {
    const StubMachine machine;
    auto plan = nothing();
    plan.driver_soname = machine.driver();
    plan.forced = {"/no/such/libcudart.so.12", "ServerOptions::cudart"};
    const auto found = resolve(plan);
    CHECK(found.api == nullptr);
    CHECK(found.forced);
    REQUIRE(found.attempts.size() == 1);
    CHECK(found.attempts[0].rung == "override by ServerOptions::cudart");
    CHECK(machine.calls().empty());

    const auto message = PinError{RuntimeUnavailable{found.attempts, found.forced}}.message();
    CHECK_THAT(message, contains("/no/such/libcudart.so.12: cannot open shared object file"));
    CHECK(message.ends_with("correct it, or remove it to have one searched for."));
}

TEST_CASE("resolve: an override may be the driver") {
    const StubMachine machine;
    auto plan = nothing();
    plan.forced = {machine.driver(), "RONDO_CUDART"};
    const auto found = resolve(plan);
    REQUIRE(found.api != nullptr);
    CHECK(found.api->name() == std::string{"CUDA driver"});
}

TEST_CASE("resolve: a machine with a driver only is served by the driver") {
    const StubMachine machine;
    const ScopedVariable two{"RONDO_STUB_DEVICES", "2"};
    auto plan = nothing();
    plan.driver_soname = machine.driver();
    const auto found = resolve(plan);
    REQUIRE(found.api != nullptr);
    CHECK(found.device_count == 2);
    CHECK(found.attempts.back().outcome == "taken: CUDA driver 12.8, sees 2 devices");
    CHECK(found.attempts.size() == nothing().sonames.size() + 8);

    const ScopedVariable fail{"RONDO_STUB_FAIL", "cuInit:0:100"};
    const auto without = resolve(plan);
    CHECK(without.api == nullptr);
    CHECK_THAT(without.attempts.back().outcome, contains("cuInit: CUDA_ERROR_NO_DEVICE (100)"));
}

TEST_CASE(
    "resolve: a loaded runtime is found by a name with spaces, and after its file is deleted") {
    const StubMachine machine;
    const auto spaced = machine.runtime("site packages/torch/lib/libcudart-8774224f.so.12");
    const auto deleted = machine.runtime("old/libcudart.so.11.0");
    REQUIRE(DynamicLibrary::open(spaced));
    REQUIRE(DynamicLibrary::open(deleted));
    fs::remove(deleted);

    for (const auto& file : {spaced, deleted}) {
        auto plan = nothing();
        plan.loaded_objects = loaded_objects();
        CHECK(std::ranges::count(plan.loaded_objects, file.string()) == 1);  // one, of 4 segments
        // Other tests of this process have loaded stubs as well.
        std::erase_if(plan.loaded_objects,
                      [&](const std::string& object) { return object != file.string(); });
        const auto found = resolve(plan);
        CHECK(taken(found) == "already-loaded scan");
        CHECK(found.library == file.string());
    }
}

TEST_CASE("resolve: what is not loaded any more is not loaded again") {
    const StubMachine machine;
    auto plan = nothing();
    plan.loaded_objects = {machine.runtime("libcudart.so.12")};
    const auto found = resolve(plan);
    CHECK(found.api == nullptr);
    CHECK(found.attempts[1].outcome == "it is not loaded any more");
}

TEST_CASE("resolve: a failure is not remembered") {
    const StubMachine machine;
    auto plan = nothing();
    plan.toolkits = {machine / "cuda"};
    CHECK(resolve(plan).api == nullptr);
    (void)machine.runtime("cuda/lib64/libcudart.so.13");
    CHECK(taken(resolve(plan)) == "toolkit directories");
}

TEST_CASE("resolve: what is taken offers its symbols to nobody else, and stays loaded") {
    const StubMachine machine;
    auto plan = nothing();
    plan.toolkits = {machine / "cuda"};
    const auto file = machine.runtime("cuda/lib64/libcudart.so.13");
    REQUIRE(resolve(plan).api != nullptr);
    CHECK(::dlsym(RTLD_DEFAULT, "cudaHostRegister") == nullptr);
    CHECK(std::ranges::count(loaded_objects(), file.string()) == 1);
}

TEST_CASE("resolve: a file that is no library says so") {
    const StubMachine machine;
    std::ofstream{machine / "libcudart.so.12"} << "not an ELF file";
    auto plan = nothing();
    plan.forced = {machine / "libcudart.so.12", "RONDO_CUDART"};
    const auto found = resolve(plan);
    REQUIRE(found.attempts.size() == 1);
    CHECK_THAT(found.attempts[0].outcome, contains("file too short") || contains("invalid ELF"));
}
