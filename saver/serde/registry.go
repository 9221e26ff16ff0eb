package serde

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
)

// ErrRegister: a registration is invalid or contradicts an earlier one.
var ErrRegister = errors.New("cannot register type")

// Form is how values of a registered Go type are encoded.
type Form int8

// The forms a Go type can be registered with.
const (
	// FormKeyword is for dataclasses and named tuples: every field by name, in
	// the order of the Go struct (ExtKeyword).
	FormKeyword Form = iota
	// FormPydantic is for pydantic models of version 2 (ExtPydanticV2).
	FormPydantic
	// FormPydanticV1 is for pydantic models of version 1 (ExtPydanticV1).
	FormPydanticV1
	// FormSingle is for types that are built from one argument, such as enums and secrets.
	// The Go type is a named string, number, slice or map, not a struct (ExtSingle).
	FormSingle
)

func (f Form) code() (int8, bool) {
	switch f {
	case FormKeyword:
		return ExtKeyword, true
	case FormPydantic:
		return ExtPydanticV2, true
	case FormPydanticV1:
		return ExtPydanticV1, true
	case FormSingle:
		return ExtSingle, true
	}
	return 0, false
}

// TypeName names a Python type.
type TypeName struct {
	Module string // "app.models"
	Name   string // "Invoice"
}

// String is the dotted name.
func (n TypeName) String() string { return n.Module + "." + n.Name }

// registration maps a Python type to a Go type. goType is nil for a type that is allowed but
// has no Go counterpart.
type registration struct {
	name    TypeName
	code    int8
	goType  reflect.Type // never a pointer
	pointer bool         // decode to *T, because the prototype was one
}

// Registry is the allowlist: the Python types a Codec knows, and the Go types
// they become. The zero value is empty and ready for use. It is not safe for
// concurrent change; New copies it, so later changes do not reach a Codec.
type Registry struct {
	byName map[TypeName]*registration
	byType map[reflect.Type]*registration
	// largest bounds the memory that a registered value takes for each value inside it: no
	// registered type takes more.
	largest int64
}

// Register maps the Python type module.name to the Go type of prototype. Values of the Go type,
// and pointers to it, are written as the Python type in the given form. Data of the Python
// type, in any form, decodes to the Go type. If prototype is a pointer, it decodes to
// pointers.
//
// A field of the data that the Go struct lacks is dropped, unless the struct has a
// map[string]any field tagged `stele:",extra"`. That field collects such fields, and they are
// written back.
//
// The error is ErrRegister if a name is empty or registered for another Go type, or if the Go
// type is registered, belongs to this package, or does not fit the form.
func (r *Registry) Register(module, name string, prototype any, form Form) error {
	n := TypeName{module, name}
	t := reflect.TypeOf(prototype)
	reg := &registration{name: n, goType: t}
	if t != nil && t.Kind() == reflect.Pointer {
		reg.pointer, reg.goType = true, t.Elem()
	}
	code, ok := form.code()
	reg.code = code
	switch {
	case module == "" || name == "":
		return fmt.Errorf("%w: %T as %q: module and name are needed", ErrRegister, prototype, n)
	case t == nil:
		return fmt.Errorf("%w: %s: no prototype", ErrRegister, n)
	case !ok:
		return fmt.Errorf("%w: %s: no such form: %d", ErrRegister, n, form)
	case reg.goType.Name() == "" || reg.goType.PkgPath() == "":
		return fmt.Errorf("%w: %s as %s: only types declared by a package have a name to register", ErrRegister, reg.goType, n)
	case isNative(reg.goType):
		return fmt.Errorf("%w: %s as %s: it has a serialized form of its own", ErrRegister, reg.goType, n)
	case (form == FormSingle) == (reg.goType.Kind() == reflect.Struct):
		return fmt.Errorf("%w: %s as %s: structs have fields, and FormSingle is for anything but structs", ErrRegister, reg.goType, n)
	}
	if old := r.byName[n]; old != nil && old.goType != nil && old.goType != reg.goType {
		return fmt.Errorf("%w: %s as %s: the name belongs to %s", ErrRegister, reg.goType, n, old.goType)
	}
	if old := r.byType[reg.goType]; old != nil && old.name != n {
		return fmt.Errorf("%w: %s as %s: it is registered as %s", ErrRegister, reg.goType, n, old.name)
	}
	r.put(reg)
	return nil
}

// RegisterStruct registers the struct type T as the dataclass module.name. See
// Registry.Register.
func RegisterStruct[T any](r *Registry, module, name string) error {
	var zero T
	return r.Register(module, name, zero, FormKeyword)
}

// RegisterModel registers the struct type T as the pydantic model module.name.
// See Registry.Register.
func RegisterModel[T any](r *Registry, module, name string) error {
	var zero T
	return r.Register(module, name, zero, FormPydantic)
}

// RegisterEnum registers the named string or number type T as the enum
// module.name. See Registry.Register.
func RegisterEnum[T any](r *Registry, module, name string) error {
	var zero T
	return r.Register(module, name, zero, FormSingle)
}

// Allow puts module.name on the allowlist without a Go type. It decodes to *Ext, even in strict
// mode, and no event is reported.
func (r *Registry) Allow(module, name string) {
	n := TypeName{module, name}
	if r.byName[n] == nil {
		r.put(&registration{name: n})
	}
}

func (r *Registry) put(reg *registration) {
	if r.byName == nil {
		r.byName = map[TypeName]*registration{}
		r.byType = map[reflect.Type]*registration{}
	}
	r.byName[reg.name] = reg
	if reg.goType != nil {
		r.byType[reg.goType] = reg
		r.largest = max(r.largest, registeredCost(reg.goType)+largest(reg.goType))
	}
}

func (r *Registry) clone() *Registry {
	if r == nil {
		return &Registry{}
	}
	return &Registry{byName: maps.Clone(r.byName), byType: maps.Clone(r.byType), largest: r.largest}
}

// safeTypes are the types that LangGraph always builds and stele never reports: those with a
// native Go type, and plain containers of data.
var safeTypes = func() map[TypeName]bool {
	all := map[TypeName]bool{}
	add := func(module string, names ...string) {
		for _, n := range names {
			all[TypeName{module, n}] = true
		}
	}
	add("datetime", "datetime", "date", "time", "timedelta", "timezone")
	add("uuid", "UUID")
	add("decimal", "Decimal")
	add("builtins", "set", "frozenset")
	add("collections", "deque")
	add("ipaddress", "IPv4Address", "IPv4Interface", "IPv4Network", "IPv6Address", "IPv6Interface", "IPv6Network")
	add("pathlib", "Path", "PosixPath", "WindowsPath")
	add("pathlib._local", "Path", "PosixPath", "WindowsPath")
	add("zoneinfo", "ZoneInfo")
	add("re", "compile")
	add("langchain_core.messages.modifier", "RemoveMessage")
	for module, name := range messageClasses {
		add("langchain_core.messages."+module, name, name+"Chunk")
	}
	add("langchain_core.documents.base", "Document")
	add(modTypes, nameSend, nameTimeout, nameInterrupt, nameCommand, "StateSnapshot", "PregelTask", nameOverwrite)
	add("langgraph.store.base", "Item", "GetOp")
	return all
}()

// messageClasses are LangChain's message classes by the module they live in.
var messageClasses = map[string]string{
	"base": "BaseMessage", "human": "HumanMessage", "ai": "AIMessage", "system": "SystemMessage",
	"chat": "ChatMessage", "tool": "ToolMessage", "function": "FunctionMessage",
}
