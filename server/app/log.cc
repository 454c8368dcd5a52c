#include "server/app/log.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/dcheck.h"
#include "base/strings.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace lightcone::server {
namespace {

// Messages hold bytes of requests: only a JSON writer gets every one of them escaped.
class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    nlohmann::json line;
    line["time"] = absl::FormatTime(absl::RFC3339_full, absl::FromChrono(message.time), absl::UTCTimeZone());
    line["level"] = std::string(spdlog::level::to_string_view(message.level).data());
    line["message"] = std::string(message.payload.data(), message.payload.size());
    const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

// A line break in a message must not look like a second line of the log.
std::string OneLine(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return out;
}

void Log(spdlog::level::level_enum level, const std::string& line) { spdlog::log(level, "{}", OneLine(line)); }

}  // namespace

void SetUpLog(std::string_view level, std::string_view format) {
  LC_DCHECK(format == "json" || format == "text");
  auto logger = std::make_shared<spdlog::logger>("lightcone", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (format == "json") {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc);
  }
  logger->set_level(spdlog::level::from_str(std::string(level)));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void LogCall(std::string_view method, std::string_view code, absl::Duration elapsed, std::string_view message,
             const TraceId& trace_id) {
  const bool operates =
      method == "Collections/Create" || method == "Collections/Drop" || method == "Collections/SetAlias" ||
      method == "Collections/Update" || method == "Collections/Rebuild" || method == "Generations/Register" ||
      method == "Generations/Activate" || method == "Generations/Rollback" || method == "Generations/PutAdapter" ||
      method == "Generations/DropAdapter" || method == "Generations/PutProbes" || method == "Generations/DropProbes" ||
      method == "Generations/Validate" || method == "Generations/SetCanary" || method == "Generations/FitAdapter" ||
      method == "Training/Start" || method == "Training/Cancel" || method == "Generations/Retire" ||
      method == "Jobs/Cancel" || method == "Backfill/Start" || method == "Backfill/Pause" ||
      method.starts_with("Console/") || method == "Snapshots/CreateSnapshot" || method == "Snapshots/DeleteSnapshot" ||
      method == "Snapshots/UploadSnapshot" || method == "Snapshots/RestoreCollection";
  const bool fault = code == "INTERNAL" || code == "DATA_LOSS" || code == "UNKNOWN";
  if (!operates && !fault && (code == "OK" || !spdlog::should_log(spdlog::level::debug))) return;
  const auto level = fault ? spdlog::level::err : operates ? spdlog::level::info : spdlog::level::debug;
  const std::string trace = trace_id.empty() ? "" : StrCat(" trace ", HexOf(trace_id));
  Log(level, StrCat(method, " ", code, " ", absl::ToInt64Microseconds(elapsed), " us", trace,
                    message.empty() ? "" : ": ", message));
}

void LogInfo(std::string_view message) { Log(spdlog::level::info, std::string(message)); }
void LogWarning(std::string_view message) { Log(spdlog::level::warn, std::string(message)); }

}  // namespace lightcone::server
