// SPDX-License-Identifier: Apache-2.0
#include "pinning/search_plan.hpp"

#include "support.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <fstream>

using rondo::detail::cudart_major;
using rondo::detail::ladder;
using rondo::detail::make_search_plan;
using rondo::detail::Rung;
using rondo::detail::SearchContext;
using rondo::detail::SearchPlan;
using rondo::test::TempDir;

namespace fs = std::filesystem;

namespace {

fs::path touch(const fs::path& file) {
    fs::create_directories(file.parent_path());
    std::ofstream{file};
    return file;
}

std::vector<std::string> names(const std::vector<Rung>& rungs) {
    std::vector<std::string> all;
    for (const Rung& rung : rungs) all.push_back(rung.name);
    return all;
}

const Rung& rung_named(const std::vector<Rung>& rungs, const std::string& name) {
    const auto found = std::ranges::find(rungs, name, &Rung::name);
    REQUIRE(found != rungs.end());
    return *found;
}

std::vector<std::string> wheels_in(const std::vector<fs::path>& sites) {
    SearchPlan plan;
    plan.site_directories = sites;
    return rung_named(ladder(plan), "installed-wheel search").candidates;
}

}  // namespace

TEST_CASE("SearchPlan: a CUDA runtime is known by its file name") {
    CHECK(cudart_major("libcudart.so") == 0);
    CHECK(cudart_major("libcudart.so.13") == 13);
    CHECK(cudart_major("libcudart.so.11.0") == 11);
    CHECK(cudart_major("libcudart.so.12.4.127") == 12);
    CHECK(cudart_major("libcudart-8774224f.so.12") == 12);
    CHECK(cudart_major("libcudart-d0da41ae.so.11.0") == 11);
    for (const char* const other :
         {"libcudart_static.a", "libcudart_static.so", "libcudart", "libcudart.a", "libcudart-.so",
          "libcudart-8774224f", "libcudart.so.", "libcudart.so.12.", "libcudart.so.x",
          "libcudart.so.12.bak", "libcudart.so12", "libcudart.so.12 (deleted)", "libcuda.so.1",
          "xlibcudart.so.12", "libcudart2.so", ""}) {
        CAPTURE(other);
        CHECK_FALSE(cudart_major(other).has_value());
    }
}

TEST_CASE("SearchPlan: the rungs come in the documented order, each empty one with its reason") {
    SearchPlan plan;
    plan.roots = {{"CONDA_PREFIX", ""}, {"CUDA_PATH", ""}, {"CUDA_HOME", "/nowhere"}};
    const auto rungs = ladder(plan);
    CHECK(names(rungs) == std::vector<std::string>{"override", "already-loaded scan",
                                                   "installed-wheel search", "soname load",
                                                   "CONDA_PREFIX", "CUDA_PATH", "CUDA_HOME",
                                                   "toolkit directories", "driver API"});
    for (const Rung& rung : rungs) {
        CAPTURE(rung.name);
        CHECK(rung.candidates.empty());
        CHECK_FALSE(rung.empty_reason.empty());
    }
    CHECK(rungs[5].empty_reason == "not set");
    CHECK(rungs[6].empty_reason == "no libcudart in the library directories of /nowhere");
}

TEST_CASE("SearchPlan: an override is the only rung, and may be a driver") {
    SearchPlan plan;
    plan.forced = {"/opt/libcudart.so.12", "RONDO_CUDART"};
    plan.sonames = {"libcudart.so.12"};
    plan.driver_soname = "libcuda.so.1";
    auto rungs = ladder(plan);
    REQUIRE(rungs.size() == 1);
    CHECK(rungs[0].name == "override by RONDO_CUDART");
    CHECK(rungs[0].candidates == std::vector<std::string>{"/opt/libcudart.so.12"});
    CHECK(rungs[0].api == Rung::Api::runtime);

    plan.forced->path = "/usr/lib/wsl/lib/libcuda.so.1";
    CHECK(ladder(plan)[0].api == Rung::Api::driver);
}

TEST_CASE("SearchPlan: of the loaded objects only runtimes count, and nothing is loaded for them") {
    SearchPlan plan;
    plan.loaded_objects = {"/lib/libc.so.6", "/a b/libcudart.so.12", "/x/libcudart_static.a",
                           "/torch/lib/libcudart-8774224f.so.12"};
    const auto rungs = ladder(plan);
    const Rung& rung = rung_named(rungs, "already-loaded scan");
    CHECK(rung.candidates ==
          std::vector<std::string>{"/a b/libcudart.so.12", "/torch/lib/libcudart-8774224f.so.12"});
    CHECK(rung.open == Rung::Open::loaded_only);
}

TEST_CASE("SearchPlan: wheels are found in both layouts, the newest major first") {
    const TempDir dir;
    const auto site = dir / "site-packages";
    const auto old = touch(site / "nvidia/cuda_runtime/lib/libcudart.so.12");
    const auto newer = touch(site / "nvidia/cu13/lib/libcudart.so.13");
    touch(site / "nvidia/cu13/lib/libcudart_static.a");
    touch(site / "nvidia/cublas/lib/libcublas.so.12");
    touch(site / "elsewhere/lib/libcudart.so.14");
    CHECK(wheels_in({site}) == std::vector<std::string>{newer, old});

    const auto other = dir / "user site";
    const auto hashed = touch(other / "nvidia/lib/libcudart-8774224f.so.14");
    CHECK(wheels_in({site, other}) == std::vector<std::string>{newer, old, hashed});
    CHECK(wheels_in({dir / "missing"}).empty());
}

TEST_CASE("SearchPlan: the wheel search goes 4 levels deep and follows no link to a directory") {
    const TempDir dir;
    const auto deepest = touch(dir / "nvidia/a/b/c/libcudart.so.12");
    touch(dir / "nvidia/a/b/c/d/libcudart.so.13");
    fs::create_directory_symlink(dir / "nvidia", dir / "nvidia/loop");
    fs::create_directories(dir / "nvidia/e");
    const auto target = touch(dir / "store/libcudart.so.11.0");
    const auto link = dir / "nvidia/e/libcudart.so.11.0";
    fs::create_symlink(target, link);  // how some installers place a file
    CHECK(wheels_in({dir.path()}) == std::vector<std::string>{deepest, link});
}

TEST_CASE("SearchPlan: a toolkit's library is one candidate under all its names") {
    const TempDir dir;
    const auto root = dir / "cuda";
    const auto file = touch(root / "targets/x86_64-linux/lib/libcudart.so.12.4.127");
    fs::create_directory_symlink(root / "targets/x86_64-linux/lib", root / "lib64");
    fs::create_symlink(file, root / "lib64/libcudart.so.12");
    fs::create_symlink(file, root / "lib64/libcudart.so");
    SearchPlan plan;
    plan.roots = {{"CUDA_HOME", root}};
    plan.toolkits = {root};
    const auto rungs = ladder(plan);
    const std::vector<std::string> expected{root / "lib64/libcudart.so.12"};
    CHECK(rung_named(rungs, "CUDA_HOME").candidates == expected);
    CHECK(rung_named(rungs, "toolkit directories").candidates == expected);
}

TEST_CASE("SearchPlan: is made from options, environment and file system") {
    const TempDir dir;
    for (const char* const name : {"cuda-9.2", "cuda-12.4", "cuda-13.0", "cuda", "cudalike"}) {
        fs::create_directories(dir / "usr/local" / name);
    }
    fs::create_directories(dir / "venv/lib/python3.11/site-packages");
    fs::create_directories(dir / "home/.local/lib/python3.9/site-packages");
    fs::create_directories(dir / "usr/local/lib/python3.11/dist-packages");
    std::map<std::string, std::string> environment{
        {"VIRTUAL_ENV", dir / "venv"}, {"HOME", dir / "home"}, {"CUDA_HOME", "/opt/cuda"}};
    SearchContext context{.cudart = "",
                          .site_directories = {},
                          .variable = [&](const char* name) { return environment[name]; },
                          .loaded_objects = {"/lib/libc.so.6"},
                          .root = dir.path()};
    const auto plan = make_search_plan(context);
    CHECK_FALSE(plan.forced);
    CHECK(plan.loaded_objects == context.loaded_objects);
    CHECK(plan.site_directories ==
          std::vector<fs::path>{dir / "venv/lib/python3.11/site-packages",
                                dir / "home/.local/lib/python3.9/site-packages",
                                dir / "usr/local/lib/python3.11/dist-packages"});
    CHECK(plan.sonames ==
          std::vector<std::string>{"libcudart.so.13", "libcudart.so.12", "libcudart.so"});
    REQUIRE(plan.roots.size() == 3);
    CHECK(plan.roots[0].path.empty());
    CHECK(plan.roots[2].variable == "CUDA_HOME");
    CHECK(plan.roots[2].path == "/opt/cuda");
    CHECK(plan.toolkits ==
          std::vector<fs::path>{dir / "usr/local/cuda", dir / "usr/local/cuda-13.0",
                                dir / "usr/local/cuda-12.4", dir / "usr/local/cuda-9.2"});
    CHECK(plan.driver_soname == "libcuda.so.1");

    context.site_directories = {"/given"};
    CHECK(make_search_plan(context).site_directories == std::vector<fs::path>{"/given"});

    environment["RONDO_CUDART"] = "/env/libcudart.so";
    REQUIRE(make_search_plan(context).forced);
    CHECK(make_search_plan(context).forced->source == "RONDO_CUDART");
    context.cudart = "/option/libcudart.so";
    CHECK(make_search_plan(context).forced->path == "/option/libcudart.so");
    CHECK(make_search_plan(context).forced->source == "ServerOptions::cudart");
}
