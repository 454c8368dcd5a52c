#include "trainer/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "base/strings.h"

namespace lightcone {
namespace {

constexpr int kBarWidth = 24;
constexpr auto kLineInterval = std::chrono::minutes(1);

std::string Format(const char* format, auto... values) {
  char buffer[160];
  std::snprintf(buffer, sizeof(buffer), format, values...);
  return buffer;
}

std::string Duration(double seconds) {
  const int64_t s = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (s >= 3600)
    return Format("%" PRId64 ":%02d:%02d", s / 3600, static_cast<int>(s / 60 % 60), static_cast<int>(s % 60));
  return Format("%02d:%02d", static_cast<int>(s / 60), static_cast<int>(s % 60));
}

std::string Bar(double share, int width) {
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  std::string bar(static_cast<size_t>(width), ' ');
  std::fill(bar.begin(), bar.begin() + filled, '=');
  if (filled < width) bar[static_cast<size_t>(filled)] = '>';
  return "[" + bar + "] ";
}

}  // namespace

std::string FormatProgress(const TrainProgress& p, int bar_width) {
  std::string line = p.name + " ";
  if (bar_width > 0) line += Bar(p.steps > 0 ? static_cast<double>(p.step) / p.steps : 0, bar_width);
  line += Format("epoch %" PRId64 "/%" PRId64 "  step %" PRId64 "/%" PRId64, p.epoch, p.epochs, p.step, p.steps);
  for (const auto& [name, value] : p.losses) line += "  " + name + Format(" %.3f", value);
  line += Format("  %.0f img/s  ", p.images_per_second);
  line += p.finished ? "took " + Duration(p.elapsed_seconds) : "ETA " + Duration(p.eta_seconds);
  return line;
}

ProgressPrinter::ProgressPrinter(std::FILE* out) : ProgressPrinter(out, isatty(fileno(out)) == 1, kLineInterval) {}

ProgressPrinter::ProgressPrinter(std::FILE* out, bool terminal, std::chrono::steady_clock::duration line_interval)
    : out_(out), terminal_(terminal), line_interval_(line_interval) {}

void ProgressPrinter::Show(const TrainProgress& progress) {
  if (terminal_) {
    std::fprintf(out_, "\r%s\x1b[K%s", FormatProgress(progress, kBarWidth).c_str(), progress.finished ? "\n" : "");
    std::fflush(out_);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && !progress.finished && now - last_ < line_interval_) return;
  shown_ = true;
  last_ = now;
  std::fprintf(out_, "%s\n", FormatProgress(progress, 0).c_str());
  std::fflush(out_);
}

}  // namespace lightcone
