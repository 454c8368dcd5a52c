#include "store/walk.h"

#include <optional>
#include <string>

#include "base/status.h"

namespace lightcone {

absl::Status WalkPastDamage(Iterator& rows,
                            absl::FunctionRef<absl::Status(std::string_view key, std::string_view value)> visit,
                            absl::FunctionRef<absl::Status(std::string_view key, const absl::Status& why)> pass_over) {
  while (true) {
    for (; rows.Valid(); rows.Next()) {
      const absl::Status seen = visit(rows.key(), rows.value());
      LC_RETURN_IF_ERROR(absl::IsDataLoss(seen) ? pass_over(rows.key(), seen) : seen);
    }
    const absl::Status why = rows.status();
    const std::optional<std::string> key = rows.SkipDamaged();
    if (!key) return why;
    LC_RETURN_IF_ERROR(pass_over(*key, why));
  }
}

}  // namespace lightcone
