// SPDX-License-Identifier: Apache-2.0
// A fresh process for tests: what is loaded stays so, and the loader reads its environment once.
//   probe off              makes a server without pinning, prints what of CUDA is mapped
//   probe nowhere          looks for a runtime where there is none, prints the error
//   probe report [FILE...] opens the files, then pins a small ring as a server would; prints all
//   probe no-procfs FILE   the same where /proc is empty
//   probe exit-with-views  exits with a pinned server and a batch in static storage
//   probe no-thread        pins a small ring where no thread can be started; prints all
//   probe old-kernel       pins and forks where the kernel knows neither MADV_WIPEONFORK nor
//                          MADV_POPULATE_WRITE
// no-procfs, no-thread and old-kernel exit with 77 if the process may not bring that about.
#include "pinning/dynamic_library.hpp"
#include "pinning/pin_ring.hpp"
#include <rondo/server.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <optional>
#include <sched.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

using rondo::detail::PinReport;
using rondo::detail::PinRequest;

namespace {

int fail(const std::string& why) {
    std::fprintf(stderr, "probe: %s\n", why.c_str());
    return 1;
}

rondo::SampleSpec spec() {
    return *rondo::SampleSpec::create({{"obs", rondo::dtype::float32, {4}}});
}

int off() {
    auto server = rondo::Server::create(spec(), {.batch_size = 1});
    if (!server) return fail(server.error().message());
    const rondo::Sample sample{spec()};
    if (!server->blocking_insert(sample) || !server->blocking_sample()) return fail("no batch");
    std::ifstream maps{"/proc/self/maps"};
    if (!maps) return fail("no /proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find("libcud") != line.npos) std::puts(line.c_str());
    }
    return 0;
}

int print(const PinReport& report) {
    for (const auto& attempt : report.attempts) {
        std::printf("%s: %s: %s\n", attempt.rung.c_str(), attempt.candidate.c_str(),
                    attempt.outcome.c_str());
    }
    if (report.error) {
        std::printf("error: %s\n", report.error->message().c_str());
        return 2;
    }
    std::printf("pinned: %s, %s, %s %d, driver %d, device %d of %zu (%s), %llu bytes\n",
                report.rung.c_str(), report.library.c_str(), report.api.c_str(), report.api_version,
                report.driver_version, report.device.value_or(-1), report.devices.size(),
                report.device_reason.c_str(), static_cast<unsigned long long>(report.bytes));
    return 0;
}

int nowhere() {
    PinRequest request;
    request.plan = [] {
        rondo::detail::SearchPlan plan;
        plan.site_directories = {"/nowhere/site-packages"};
        plan.sonames = {"libcudart.so.9013", "libcudart.so.9012"};
        plan.roots = {{"CONDA_PREFIX", ""}, {"CUDA_PATH", "/nowhere/cuda"}, {"CUDA_HOME", ""}};
        plan.driver_soname = "libcuda-of-nobody.so.1";
        return plan;
    };
    return print(rondo::detail::diagnose_pinning(request));
}

int report(int count, char** files) {
    for (int i = 0; i < count; ++i) {
        const auto opened = rondo::detail::DynamicLibrary::open(files[i]);
        if (!opened) return fail(opened.error());
    }
    return print(rondo::detail::diagnose_pinning(rondo::detail::make_pin_request({}, {}, {})));
}

int no_procfs(int count, char** files) {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
        return 77;
    }
    if (::access("/proc/self/maps", F_OK) == 0) return fail("/proc is still there");
    const int status = report(count, files);
    std::fflush(stdout);
    ::_exit(status);  // a leak checker would want /proc
}

int exit_with_views() {
    static auto server = rondo::Server::create(spec(), {.batch_size = 1, .pin_host_memory = true});
    if (!server) return fail(server.error().message());
    const rondo::Sample sample{spec()};
    if (!server->blocking_insert(sample)) return fail("no sample");
    static auto batch = server->blocking_sample();
    return batch.has_value() ? 0 : fail("no batch");
}

template <std::size_t Size>
bool install(std::array<sock_filter, Size> filter) {
    const sock_fprog program{Size, filter.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int no_thread() {
    const bool refused = install(std::array{
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 2, 0),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 1, 0),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
    });
    const int status = refused ? report(0, nullptr) : 77;
    std::fflush(stdout);
    ::_exit(status);  // a leak checker would want a thread, too
}

/// From now on the kernel refuses the two pieces of advice, as those before 4.14 and 5.14 do.
bool become_older() {
    constexpr unsigned wipe_on_fork = 18;
    constexpr unsigned populate_write = 23;
    return install(std::array{
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_madvise, 0, 3),
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wipe_on_fork, 2, 0),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, populate_write, 1, 0),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
    });
}

int old_kernel() {
    if (!become_older()) return 77;
    auto server = rondo::Server::create(spec(), {.batch_size = 1, .pin_host_memory = true});
    if (!server) return fail(server.error().message());
    const rondo::Sample sample{spec()};
    if (!server->blocking_insert(sample)) return fail("no sample");
    auto batch = server->blocking_sample();
    if (!batch) return fail("no batch");
    const pid_t child = ::fork();
    if (child == 0) {
        unsigned char resident = 0;
        auto* const memory = const_cast<float*>(batch->array<float>(0).data());
        if (::mincore(memory, 1, &resident) == 0) ::_exit(2);  // it has the memory
        const bool inserted = server->try_insert(sample).has_value();
        { const auto gone = std::move(*batch); }
        { const auto gone = std::move(*server); }
        ::_exit(inserted ? 1 : 0);
    }
    int status = -1;
    if (::waitpid(child, &status, 0) != child || status != 0) return fail("the child failed");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view what = argc > 1 ? argv[1] : "";
    if (what == "off") return off();
    if (what == "nowhere") return nowhere();
    if (what == "report") return report(argc - 2, argv + 2);
    if (what == "no-procfs") return no_procfs(argc - 2, argv + 2);
    if (what == "exit-with-views") return exit_with_views();
    if (what == "no-thread") return no_thread();
    if (what == "old-kernel") return old_kernel();
    return fail(
        "off, nowhere, report, no-procfs, exit-with-views, no-thread or old-kernel expected");
}
