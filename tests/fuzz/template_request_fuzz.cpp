// Any text as a request, on a template that prints all of it in many ways.
#include <cstdint>
#include <string>

#include "tests/template/support.h"

using namespace llmc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  RenderOptions options;
  options.limits = {500'000, 1 << 20, 1 << 24, 100};
  options.control_tokens = {"<|im_start|>", "<b>"};
  RenderSource(
      "{{ messages }}{{ tools|tojson(indent=2) }}{% for m in messages %}{% for k, v in m.items() %}{{ k|upper }}{{ "
      "v|string|title|indent "
      "}}{{ v|tojson }}{% if v is string %}{{ v[::-1] }}{{ v.split() }}{{ '%s' % v }}{{ '{:>9}'.format(v) }}{{ v|int "
      "}}{{ v|float }}{% endif "
      "%}{% if v is number %}{{ v * v // 3 % 7 }}{{ v|round(2) }}{{ '%d' % v }}{% endif %}{% endfor %}{% endfor %}",
      std::string(reinterpret_cast<const char*>(data), size), {}, options);
  return 0;
}
