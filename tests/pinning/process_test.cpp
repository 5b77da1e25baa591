// SPDX-License-Identifier: Apache-2.0
// What needs a process of its own, see probe.cpp.
#include "support.hpp"
#include "support/catch.hpp"

#include <array>
#include <sys/wait.h>

using rondo::test::contains;
using rondo::test::ScopedVariable;
using rondo::test::StubMachine;
using rondo::test::TempDir;

namespace {

struct Result {
    int status = -1;
    std::string output;  ///< standard output and standard error
};

Result probe(const std::string& arguments) {
    Result result;
    std::FILE* const pipe = ::popen((RONDO_PROBE " " + arguments + " 2>&1").c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::array<char, 4096> block{};
    while (const auto got = std::fread(block.data(), 1, block.size(), pipe)) {
        result.output.append(block.data(), got);
    }
    const int status = ::pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
}

/// Nothing of this machine's CUDA, wherever its variables point.
class BareEnvironment {
    TempDir home_;
    ScopedVariable home_variable_{"HOME", home_.path()};
    ScopedVariable venv_{"VIRTUAL_ENV", ""};
    ScopedVariable conda_{"CONDA_PREFIX", ""};
    ScopedVariable cuda_path_{"CUDA_PATH", ""};
    ScopedVariable cuda_home_{"CUDA_HOME", ""};
    ScopedVariable cudart_{"RONDO_CUDART", ""};
};

}  // namespace

TEST_CASE("process: without pinning nothing of CUDA is loaded") {
    const BareEnvironment environment;
    const StubMachine machine;
    const ScopedVariable cudart{"RONDO_CUDART", machine.runtime("libcudart.so.12")};
    const ScopedVariable path{"LD_LIBRARY_PATH", machine.path()};
    (void)machine.driver();
    const auto result = probe("off");
    CHECK(result.output.empty());
    CHECK(result.status == 0);
    CHECK(machine.calls().empty());
}

TEST_CASE("process: where there is no runtime the message has every rung, in order") {
    const BareEnvironment environment;
    const auto result = probe("nowhere");
    CHECK(result.status == 2);
    const auto error = result.output.find("error: ");
    REQUIRE(error != result.output.npos);
    const auto message = result.output.substr(error);
    std::size_t at = 0;
    for (const char* const line :
         {"Host memory cannot be pinned: expected a CUDA runtime or driver",
          "\n  1. override: (none): neither ServerOptions::cudart nor RONDO_CUDART is set\n",
          "\n  2. already-loaded scan: (none): no libcudart is loaded in this process\n",
          "\n  3. installed-wheel search: (none): no libcudart beneath nvidia/ in "
          "/nowhere/site-packages\n",
          "\n  4. soname load: libcudart.so.9013: libcudart.so.9013: cannot open shared object "
          "file: No such file or directory\n",
          "\n  5. soname load: libcudart.so.9012: ", "\n  6. CONDA_PREFIX: (none): not set\n",
          "\n  7. CUDA_PATH: (none): no libcudart in the library directories of /nowhere/cuda\n",
          "\n  8. CUDA_HOME: (none): not set\n",
          "\n  9. toolkit directories: (none): there is no /usr/local/cuda*\n",
          "\n  10. driver API: libcuda-of-nobody.so.1: ", "pip install nvidia-cuda-runtime-cu12`",
          "pip install nvidia-cuda-runtime`", "RONDO_CUDART", "switch pin_host_memory off.\n"}) {
        CAPTURE(line, message);
        const auto found = message.find(line, at);
        REQUIRE(found != message.npos);
        at = found + std::string{line}.size() - 1;  // the line break may begin the next
    }
    CHECK(at + 1 == message.size());
}

TEST_CASE("process: the dynamic linker's search finds a runtime by its soname") {
    const BareEnvironment environment;
    const StubMachine machine;
    const auto file = machine.runtime("libcudart.so.13");
    const ScopedVariable path{"LD_LIBRARY_PATH", machine.path()};
    const auto result = probe("report");
    CAPTURE(result.output);
    CHECK(result.status == 0);
    CHECK_THAT(result.output, contains("soname load: libcudart.so.13: taken: CUDA runtime 12.4"));
    CHECK_THAT(result.output, contains("pinned: soname load, " + file.string()));
}

TEST_CASE("process: a runtime that the program has loaded comes first, under a hashed name too") {
    const BareEnvironment environment;
    const StubMachine machine;
    (void)machine.runtime("libcudart.so.13");
    const auto hashed = machine.runtime("torch libs/libcudart-8774224f.so.12");
    const ScopedVariable path{"LD_LIBRARY_PATH", machine.path()};
    const auto result = probe("report '" + hashed.string() + "'");
    CAPTURE(result.output);
    CHECK(result.status == 0);
    CHECK_THAT(result.output, contains("pinned: already-loaded scan, " + hashed.string()));
}

TEST_CASE("process: wheels of the active virtual environment are found") {
    const BareEnvironment environment;
    const StubMachine machine;
    const std::string site = "venv/lib/python3.12/site-packages/nvidia/";
    (void)machine.runtime(site + "cuda_runtime/lib/libcudart.so.12");
    const auto newer = machine.runtime(site + "cu13/lib/libcudart.so.13");
    const ScopedVariable venv{"VIRTUAL_ENV", machine / "venv"};
    const auto result = probe("report");
    CAPTURE(result.output);
    CHECK(result.status == 0);
    CHECK_THAT(result.output, contains("pinned: installed-wheel search, " + newer.string()));
}

TEST_CASE("process: the device is the one whose context is current, and none appears on device 0") {
    const BareEnvironment environment;
    const StubMachine machine;
    const ScopedVariable cudart{"RONDO_CUDART", machine.runtime("libcudart.so.12")};
    const ScopedVariable path{"LD_LIBRARY_PATH", machine.path()};
    const ScopedVariable devices{"RONDO_STUB_DEVICES", "4"};
    const auto driver = machine.driver().string();

    SECTION("current on the calling thread") {
        const ScopedVariable current{"RONDO_STUB_CURRENT", "2"};
        const ScopedVariable active{"RONDO_STUB_ACTIVE", "1,2"};
        const auto result = probe("report " + driver);
        CHECK_THAT(result.output, contains("device 2 of 4 (current where the server was created)"));
        REQUIRE(machine.calls("context").size() == 1);
        CHECK(machine.calls("context")[0]["device"] == "2");
        CHECK_THAT(result.output, contains("driver 12080"));
    }
    SECTION("the only one in use") {
        const ScopedVariable active{"RONDO_STUB_ACTIVE", "3"};
        const auto result = probe("report " + driver);
        CHECK_THAT(result.output,
                   contains("device 3 of 4 (the only device with an active context)"));
        CHECK(machine.calls("context").size() == 1);
    }
    SECTION("unknown, since the driver is not loaded") {
        const ScopedVariable current{"RONDO_STUB_CURRENT", "2"};
        const auto result = probe("report");
        CHECK_THAT(result.output, contains("device 0 of 4 (the first"));
        CHECK(machine.calls("cuCtxGetCurrent").empty());
    }
}

TEST_CASE("process: a program may end with a pinned server and a batch alive") {
    const BareEnvironment environment;
    const StubMachine machine;
    const ScopedVariable cudart{"RONDO_CUDART", machine.runtime("libcudart.so.12")};
    SECTION("while the runtime still works") {
        const auto result = probe("exit-with-views");
        CHECK(result.output.empty());
        CHECK(result.status == 0);
        CHECK(machine.calls("cudaHostUnregister").size() == 1);
    }
    SECTION("while the driver is unloading") {
        const ScopedVariable fail{"RONDO_STUB_FAIL", "cudaHostUnregister:0:4"};
        const auto result = probe("exit-with-views");
        CHECK(result.output.empty());
        CHECK(result.status == 0);
    }
    SECTION("after the driver has unloaded") {
        const ScopedVariable fail{"RONDO_STUB_FAIL", "cudaGetDevice:0:4"};
        const auto result = probe("exit-with-views");
        CHECK(result.output.empty());
        CHECK(result.status == 0);
        CHECK(machine.calls("cudaHostUnregister").empty());
    }
}

TEST_CASE("process: a runtime that the program has loaded is found without procfs") {
    const BareEnvironment environment;
    const StubMachine machine;
    const auto loaded = machine.runtime("libcudart.so.12");
    const auto result = probe("no-procfs '" + loaded.string() + "'");
    CAPTURE(result.output);
    if (result.status == 77) RONDO_SKIP("this process may not mount anything");
    CHECK(result.status == 0);
    CHECK_THAT(result.output, contains("pinned: already-loaded scan, " + loaded.string()));
}

TEST_CASE("process: where no thread can be started that is the error, and the whole ladder") {
    const BareEnvironment environment;
    const auto result = probe("no-thread");
    CAPTURE(result.output);
    if (result.status == 77) RONDO_SKIP("this process may not filter its system calls");
    CHECK(result.status == 2);
    CHECK(result.output.starts_with("pin thread: (none): no thread could be started: "));
}

TEST_CASE("process: older kernels do as well, whose madvise knows less") {
    const BareEnvironment environment;
    const StubMachine machine;
    const ScopedVariable cudart{"RONDO_CUDART", machine.runtime("libcudart.so.12")};
    const auto result = probe("old-kernel");
    CAPTURE(result.output);
    if (result.status == 77) RONDO_SKIP("this process may not filter its system calls");
    CHECK(result.status == 0);
    CHECK_THAT(result.output, contains("a forked child uses a server"));
    REQUIRE(machine.calls("cudaHostRegister").size() == 1);
    CHECK(machine.calls("cudaHostRegister")[0]["resident"] == "yes");
    CHECK(machine.calls("cudaHostUnregister").size() == 1);  // by the parent alone
}
