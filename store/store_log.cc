#include "store/store_log.h"

#include <cstdarg>
#include <cstdio>

#include "spdlog/spdlog.h"

namespace lightcone {
namespace {

constexpr size_t kLineBytesMax = 1024;

class StoreLog final : public rocksdb::Logger {
 public:
  StoreLog() : Logger(rocksdb::WARN_LEVEL) {}

  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override { Logv(rocksdb::WARN_LEVEL, format, arguments); }
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < GetInfoLogLevel() || level == rocksdb::HEADER_LEVEL) return;
    char line[kLineBytesMax];
    std::vsnprintf(line, sizeof(line), format, arguments);
    spdlog::warn("rocksdb: {}", line);
  }
};

}  // namespace

std::shared_ptr<rocksdb::Logger> MakeStoreLog() { return std::make_shared<StoreLog>(); }

}  // namespace lightcone
