// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/catch.hpp"
#include <rondo/log.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace rondo::test {

/// An empty directory for as long as it lives.
class TempDir {
public:
    TempDir() {
        auto name = (std::filesystem::temp_directory_path() / "rondo-pinning-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = std::filesystem::canonical(name);
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    ~TempDir() {
        std::error_code error;
        std::filesystem::remove_all(path_, error);
    }

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
        return path_ / name;
    }

private:
    std::filesystem::path path_;
};

/// An environment variable for as long as it lives.
class ScopedVariable {
public:
    ScopedVariable(std::string name, const std::string& value) : name_{std::move(name)} {
        if (const char* const old = std::getenv(name_.c_str())) old_ = old;
        REQUIRE(::setenv(name_.c_str(), value.c_str(), 1) == 0);
    }
    ScopedVariable(const ScopedVariable&) = delete;
    ScopedVariable& operator=(const ScopedVariable&) = delete;
    ~ScopedVariable() {
        if (old_) {
            ::setenv(name_.c_str(), old_->c_str(), 1);
        } else {
            ::unsetenv(name_.c_str());
        }
    }

private:
    std::string name_;
    std::optional<std::string> old_;
};

/// What a stub wrote of one call.
struct StubCall {
    std::string function;
    std::map<std::string, std::string> values;

    [[nodiscard]] const std::string& operator[](const std::string& key) const {
        static const std::string none;
        const auto found = values.find(key);
        return found != values.end() ? found->second : none;
    }
};

inline std::vector<StubCall> read_calls(const std::filesystem::path& file) {
    std::vector<StubCall> calls;
    std::ifstream in{file};
    for (std::string line; std::getline(in, line);) {
        StubCall call;
        const auto library = line.find(" library=");  // the last, and may hold spaces
        call.values["library"] = line.substr(library + 9);
        std::istringstream words{line.substr(0, library)};
        words >> call.function;
        for (std::string word; words >> word;) {
            const auto equals = word.find('=');
            call.values[word.substr(0, equals)] = word.substr(equals + 1);
        }
        calls.push_back(std::move(call));
    }
    return calls;
}

/// A directory for stub libraries, and the file that they write to.
class StubMachine {
public:
    StubMachine() = default;

    [[nodiscard]] std::filesystem::path runtime(const std::string& name) const {
        return install(RONDO_STUB_CUDART, name);
    }
    [[nodiscard]] std::filesystem::path partial_runtime(const std::string& name) const {
        return install(RONDO_STUB_CUDART_PARTIAL, name);
    }
    [[nodiscard]] std::filesystem::path driver(const std::string& name = "libcuda.so.1") const {
        return install(RONDO_STUB_CUDA, name);
    }

    [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
        return directory_ / name;
    }
    [[nodiscard]] const std::filesystem::path& path() const { return directory_.path(); }

    [[nodiscard]] std::vector<StubCall> calls() const { return read_calls(directory_ / "calls"); }

    /// The calls of one function.
    [[nodiscard]] std::vector<StubCall> calls(const std::string& function) const {
        auto all = calls();
        std::erase_if(all, [&](const StubCall& call) { return call.function != function; });
        return all;
    }

    void forget_calls() const { std::filesystem::remove(directory_ / "calls"); }

private:
    /// A copy, not a link: another inode is another library to the dynamic linker.
    [[nodiscard]] std::filesystem::path install(const char* stub, const std::string& name) const {
        const auto path = directory_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::filesystem::copy_file(stub, path);
        return path;
    }

    TempDir directory_;
    ScopedVariable calls_file_{"RONDO_STUB_CALLS", (directory_ / "calls").string()};
};

/// Collects rondo's log lines for as long as it lives.
class CapturedLog {
public:
    CapturedLog() {
        set_log_sink([this](LogLevel, std::string_view line) {
            const std::lock_guard lock{mutex_};
            lines_.emplace_back(line);
        });
    }
    CapturedLog(const CapturedLog&) = delete;
    CapturedLog& operator=(const CapturedLog&) = delete;
    ~CapturedLog() { set_log_sink({}); }

    [[nodiscard]] std::vector<std::string> lines() const {
        const std::lock_guard lock{mutex_};
        return lines_;
    }

private:
    mutable std::mutex mutex_;
    std::vector<std::string> lines_;
};

}  // namespace rondo::test
