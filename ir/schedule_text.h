// Schedules in text: the attributes that any op may carry, whatever its record says.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ir/module.h"

namespace llmc {

using ScheduleAttrs = std::map<std::string, AttrValue, std::less<>>;

bool IsScheduleAttr(std::string_view name);
// `fail` gets what is wrong with the attributes, and does not return.
Schedule ScheduleOf(const ScheduleAttrs& attrs, const std::function<void(const std::string&)>& fail);

}  // namespace llmc
