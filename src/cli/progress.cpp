// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"

#include "cli/format.hpp"

#include <string>
#include <sys/ioctl.h>
#include <unistd.h>

namespace rondo::cli {
namespace {

constexpr std::string_view erase_line = "\r\033[K";

std::size_t columns_of(std::FILE* out) {
    const int fd = ::fileno(out);
    if (::isatty(fd) == 0) return 0;
    winsize size{};
    const bool known = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::FILE* out) : Progress{out, columns_of(out)} {}

std::chrono::milliseconds Progress::interval() const noexcept {
    return std::chrono::milliseconds{columns_ > 0 ? 200 : 1'000};
}

void Progress::show(std::string_view line) {
    if (columns_ == 0) {
        print_line(out_, line);
        return;
    }
    std::string text{erase_line};
    text += line.substr(0, columns_ - 1);  // a cursor beyond the last column would begin a new line
    std::fwrite(text.data(), 1, text.size(), out_);
    std::fflush(out_);
    shown_ = true;
}

void Progress::clear() {
    if (!shown_) return;
    std::fwrite(erase_line.data(), 1, erase_line.size(), out_);
    std::fflush(out_);
    shown_ = false;
}

}  // namespace rondo::cli
