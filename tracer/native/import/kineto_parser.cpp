#include "kineto_parser.h"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include "byte_input.h"
#include "import_limits.h"
#include "json_stream.h"
#include "kineto_handler.h"

namespace rls {
namespace {

std::string describe(const rapidjson::ParseResult& result, const KinetoHandler& handler,
                     const JsonStream& stream) {
  if (handler.is_too_deep()) return "it is nested too deeply";
  if (result.Code() == rapidjson::kParseErrorTermination) {
    return "it holds more events than so few compressed bytes can be a trace of";
  }
  if (stream.at_end()) return "it is cut off";
  if (stream.found_long_number()) return "a number has too many digits";
  return rapidjson::GetParseError_En(result.Code());
}

}  // namespace

void read_kineto(const std::string& path,
                 const std::function<void(std::uint64_t, std::uint64_t)>& tick, KinetoFile& file) {
  ByteInput input(path, tick);
  file.is_gzip = input.is_gzip();
  JsonStream stream(input, [&] { tick(input.position(), input.file_bytes()); });
  KinetoHandler handler([&](const KinetoEvent& event) {
    file.columns.add(event);
    const auto events = static_cast<std::uint64_t>(file.columns.event_count);
    return !input.is_gzip() || events < kFreeEvents + input.position() / kMinBytesPerEvent;
  });
  rapidjson::Reader reader;
  // Numbers as text keep their exact value; NaN and infinities occur among the arguments.
  constexpr unsigned kFlags =
      rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseNanAndInfFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, handler);
  file.columns.finish();
  if (!input.damage().empty()) {
    // What the text lacks follows from it.
    file.damage = input.damage();
    file.damage_offset = stream.Tell();
  } else if (result.IsError()) {
    file.damage = describe(result, handler, stream);
    file.damage_offset = stream.at_end() ? stream.Tell() : result.Offset();
  }
  file.is_json = !result.IsError() || handler.has_root() || stream.at_end();
  file.header = handler.header();
  file.has_events_array = handler.has_events_array();
  file.stray_count = handler.stray_count();
  file.cut_text_count = handler.cut_text_count();
}

}  // namespace rls
