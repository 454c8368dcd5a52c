#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "base/status.h"
#include "cli/arguments.h"
#include "cli/command_table.h"
#include "cli/formats/rows.h"
#include "cli/json/message_json.h"
#include "cli/table.h"
#include "client/scroll_cursor.h"

namespace lightcone::cli {
namespace {

struct ExportFlags {
  std::string collection, file, format = "auto", filter;
  uint64_t limit = 0;
  uint32_t page_size = 0;
};

absl::StatusOr<Row> RowOf(const v1::StoredItem& item) {
  Row row;
  LC_ASSIGN_OR_RETURN(row.vector, client::VectorOf(item.vector()));
  row.id = item.id();
  row.payload_json = item.payload_json();
  row.generation = item.generation();
  return row;
}

// The number of items that the progress bar counts to.
absl::StatusOr<int64_t> CountExpected(client::Client* client, const v1::ScrollRequest& scroll) {
  v1::CountRequest request;
  request.set_collection(scroll.collection());
  if (scroll.has_filter()) *request.mutable_filter() = scroll.filter();
  LC_ASSIGN_OR_RETURN(const v1::CountResponse response, client->Count(request));
  const uint64_t count = scroll.limit() > 0 ? std::min(scroll.limit(), response.count()) : response.count();
  return static_cast<int64_t>(count);
}

absl::Status RunExport(Context& context, const ExportFlags& flags) {
  LC_ASSIGN_OR_RETURN(const RowFormat format, RowFormatOf(flags.format, flags.file));
  auto request = RequestOf<v1::ScrollRequest>(flags);
  request.set_with_vector(true);
  if (!flags.filter.empty()) LC_RETURN_IF_ERROR(SetFilter(flags.filter, request.mutable_filter()));
  LC_ASSIGN_OR_RETURN(client::Client * client, context.Client());
  LC_ASSIGN_OR_RETURN(const int64_t expected, CountExpected(client, request));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<RowWriter> writer, CreateRows(flags.file, format));

  const absl::Time began = absl::Now();
  int64_t rows = 0;
  {
    ProgressBar bar("export", expected, "rows");
    const std::unique_ptr<client::ScrollCursor> cursor = client->Scroll(request);
    v1::ScrollResponse page;
    for (;;) {
      LC_ASSIGN_OR_RETURN(const bool more, cursor->Next(&page));
      if (!more) break;
      for (const v1::StoredItem& item : page.items()) {
        LC_ASSIGN_OR_RETURN(const Row row, RowOf(item));
        LC_RETURN_IF_ERROR(writer->Write(row));
      }
      rows += page.items_size();
      bar.Show(static_cast<double>(rows) / static_cast<double>(std::max<int64_t>(1, expected)), rows);
    }
  }
  LC_RETURN_IF_ERROR(writer->Finish());
  const double seconds = absl::ToDoubleSeconds(absl::Now() - began);
  const std::string ids = format == RowFormat::kJsonl ? std::string() : IdsPath(flags.file);
  if (context.json) {
    OrderedJson json = {{"rows", rows}, {"file", flags.file}, {"format", RowFormatName(format)}, {"seconds", seconds}};
    if (!ids.empty()) json["ids"] = ids;
    context.PrintJson(json);
  } else {
    context.Print(StrCat("exported ", Grouped(static_cast<uint64_t>(rows)), " items to ", flags.file,
                         ids.empty() ? std::string() : StrCat(", ids and payloads to ", ids), ", in ", Number(seconds),
                         " s\n"));
  }
  return absl::OkStatus();
}

void AddExportFlags(CLI::App* app, ExportFlags* flags) {
  AddCollectionArgument(app, &flags->collection);
  app->add_option("file", flags->file,
                  "File to write, as a whole or not at all; ids and payloads go beside it into NAME.ids.jsonl")
      ->required();
  app->add_option("--format", flags->format, "Format of the file: auto (by extension), npy, fvecs, bvecs or jsonl")
      ->capture_default_str();
  AddFilter(app, &flags->filter);
  app->add_option("--limit", flags->limit, "Most items to write; 0: all")->capture_default_str();
  app->add_option("--page-size", flags->page_size, "Items in a message of the server; 0: the server's default");
}

}  // namespace

void AddExport(CLI::App& root, Context& context) {
  AddCommands<ExportFlags>(root, context,
                           {{"export", "Write items with their vectors to an npy, fvecs, bvecs or jsonl file",
                             &RunExport, &AddExportFlags}});
}

}  // namespace lightcone::cli
