// Redirecting a function that libraries import: the entry that the dynamic linker filled in for it in
// each library that was loaded, and nothing else.
#pragma once

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace nx {

struct Redirection {
  const char* symbol;
  void* from;
  void* to;
  int changed;
};

#if defined(__x86_64__)
constexpr unsigned kJumpSlot = R_X86_64_JUMP_SLOT, kGlobalData = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr unsigned kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobalData = R_AARCH64_GLOB_DAT;
#else
constexpr unsigned kJumpSlot = ~0u, kGlobalData = ~0u;
#endif

static void write_entry(const dl_phdr_info* library, void** entry, void* value) {
  bool read_only = false;  // the linker write-protects such entries after it has filled them in
  auto address = reinterpret_cast<uintptr_t>(entry);
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = library->dlpi_phdr[i];
    uintptr_t first = library->dlpi_addr + p.p_vaddr;
    if (p.p_type == PT_GNU_RELRO && address >= first && address < first + p.p_memsz) read_only = true;
  }
  uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  void* start = reinterpret_cast<void*>(address & ~(page - 1));
  if (read_only && ::mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(entry, value, __ATOMIC_RELEASE);
  if (read_only) ::mprotect(start, page, PROT_READ);
}

// An entry that is filled in at the first call leads, until then, to a piece of code of the library itself.
static bool is_unresolved(const dl_phdr_info* library, const void* value) {
  auto address = reinterpret_cast<uintptr_t>(value);
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = library->dlpi_phdr[i];
    uintptr_t first = library->dlpi_addr + p.p_vaddr;
    if (p.p_type == PT_LOAD && address >= first && address < first + p.p_memsz) return true;
  }
  return false;
}

static void redirect_table(const dl_phdr_info* library, const ElfW(Rela)* table, size_t bytes, const ElfW(Sym)* symbols,
                           const char* strings, Redirection* r, bool lazy) {
  for (size_t i = 0; i < bytes / sizeof(ElfW(Rela)); ++i) {
    unsigned type = static_cast<unsigned>(ELF64_R_TYPE(table[i].r_info));
    if (type != kJumpSlot && type != kGlobalData) continue;
    if (::strcmp(strings + symbols[ELF64_R_SYM(table[i].r_info)].st_name, r->symbol) != 0) continue;
    auto** entry = reinterpret_cast<void**>(library->dlpi_addr + table[i].r_offset);
    void* now = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
    if (now == r->to) continue;
    // What somebody else put there stays.
    if (now != r->from && !(lazy && is_unresolved(library, now))) continue;
    write_entry(library, entry, r->to);
    ++r->changed;
  }
}

static int redirect_library(dl_phdr_info* library, size_t, void* argument) {
  auto* r = static_cast<Redirection*>(argument);
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < library->dlpi_phnum; ++i)
    if (library->dlpi_phdr[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
  if (dynamic == nullptr) return 0;
  const char* strings = nullptr;
  const ElfW(Sym)* symbols = nullptr;
  const ElfW(Rela)*calls = nullptr, *data = nullptr;
  size_t calls_bytes = 0, data_bytes = 0;
  uint64_t name = 0;
  for (const ElfW(Dyn)* d = dynamic; d->d_tag != DT_NULL; ++d) {
    switch (d->d_tag) {
      case DT_STRTAB: strings = reinterpret_cast<const char*>(d->d_un.d_ptr); break;
      case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym)*>(d->d_un.d_ptr); break;
      case DT_JMPREL: calls = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr); break;
      case DT_PLTRELSZ: calls_bytes = d->d_un.d_val; break;
      case DT_RELA: data = reinterpret_cast<const ElfW(Rela)*>(d->d_un.d_ptr); break;
      case DT_RELASZ: data_bytes = d->d_un.d_val; break;
      case DT_SONAME: name = d->d_un.d_val; break;
    }
  }
  // The kernel's own page and other odd objects keep offsets where addresses belong.
  if (strings == nullptr || symbols == nullptr || reinterpret_cast<uintptr_t>(strings) < library->dlpi_addr) return 0;
  bool uses_c10 = false;
  for (const ElfW(Dyn)* d = dynamic; d->d_tag != DT_NULL; ++d)
    uses_c10 = uses_c10 || (d->d_tag == DT_NEEDED && ::strncmp(strings + d->d_un.d_val, "libc10.so", 9) == 0);
  // Not libc10 itself: its allocator of the CPU is wrapped. Not this module: its own call is the way on.
  if (!uses_c10 || ::strncmp(strings + name, "libc10.so", 9) == 0 || ::strstr(library->dlpi_name, "nx_recorder") != nullptr)
    return 0;
  if (calls != nullptr) redirect_table(library, calls, calls_bytes, symbols, strings, r, true);
  if (data != nullptr) redirect_table(library, data, data_bytes, symbols, strings, r, false);
  return 0;
}

static int read_additions(dl_phdr_info* library, size_t, void* number) {
  *static_cast<unsigned long long*>(number) = library->dlpi_adds;
  return 1;
}

// How many libraries were loaded so far, those that are gone included.
static unsigned long long libraries_loaded() {
  unsigned long long number = 0;
  ::dl_iterate_phdr(read_additions, &number);
  return number;
}

// Makes every library that calls `symbol` call `to` where it called `from`; returns how many entries changed.
static int redirect_imports(const char* symbol, void* from, void* to) {
  Redirection r{symbol, from, to, 0};
  if (kJumpSlot != ~0u) ::dl_iterate_phdr(redirect_library, &r);
  return r.changed;
}

}  // namespace nx
