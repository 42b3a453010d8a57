package upstreams

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// mapping reads the members of one YAML mapping. A member that is left out or
// null gives the default that the caller names. Whatever was not asked for by the
// time of done is an unknown key.
type mapping struct {
	doc     *document
	path    string
	at      position
	members map[string]member
	asked   []string
	broken  bool // it is no mapping at all
}

// member is a key and its value. value is nil where the YAML says null.
type member struct {
	key   position
	value ast.Node
}

// list is the values of a sequence, each with its own path.
type list []item

type item struct {
	doc   *document
	path  string
	value ast.Node
}

// mappingOf reads a node as a mapping. Anything else is a problem and reads as an
// empty one, so that the defaults apply.
func (d *document) mappingOf(n ast.Node, path string, at position) *mapping {
	m := &mapping{doc: d, path: path, at: at, members: map[string]member{}}
	m.fill(n, 0)
	return m
}

func (m *mapping) fill(n ast.Node, merges int) {
	var values []*ast.MappingValueNode
	switch v := m.doc.resolve(n).(type) {
	case nil:
		return
	case *ast.NullNode:
		return
	case *ast.MappingNode:
		values = v.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{v}
	default:
		m.broken = true
		m.doc.problem(positionOf(n.GetToken()), m.path, "has to be a mapping (name: value), not "+kindOf(v), "")
		return
	}
	if m.doc.visited += len(values); m.doc.visited > maxVisited {
		m.doc.problem(m.at, m.path, "aliases repeat too much", "Write less with anchors.")
		return
	}
	for _, v := range values {
		if _, ok := v.Key.(*ast.MergeKeyNode); !ok {
			m.add(v, merges > 0)
		}
	}
	for _, v := range values {
		if _, ok := v.Key.(*ast.MergeKeyNode); ok && merges < 8 {
			m.merge(v.Value, merges+1)
		}
	}
}

// add notes a member. A merged one gives way to one that is written out.
func (m *mapping) add(v *ast.MappingValueNode, merged bool) {
	at := positionOf(v.Key.GetToken())
	name := textOf(v.Key.GetToken().Value)
	if _, twice := m.members[name]; twice {
		if !merged {
			m.doc.problem(at, m.path, fmt.Sprintf("the key %q is there twice", clip(name, 60)), "Remove one of them.")
		}
		return
	}
	value := m.doc.resolve(v.Value)
	if _, null := value.(*ast.NullNode); null {
		value = nil
	}
	m.members[name] = member{at, value}
}

// merge takes over the members of `<<: *anchor` or `<<: [*a, *b]`.
func (m *mapping) merge(n ast.Node, merges int) {
	if sequence, ok := m.doc.resolve(n).(*ast.SequenceNode); ok {
		for _, v := range sequence.Values {
			m.fill(v, merges)
		}
		return
	}
	m.fill(n, merges)
}

// get gives a member that is there and not null.
func (m *mapping) get(name string) (member, bool) {
	m.asked = append(m.asked, name)
	found, ok := m.members[name]
	return found, ok && found.value != nil
}

func (m *mapping) has(name string) bool { return m.members[name].value != nil }

// done reports the keys that nobody asked for.
func (m *mapping) done() {
	for _, name := range slices.Sorted(maps.Keys(m.members)) {
		if slices.Contains(m.asked, name) {
			continue
		}
		help := "Known here: " + oneOf(slices.Compact(slices.Sorted(slices.Values(m.asked)))) + "."
		if near := suggestion(name, m.asked); near != "" {
			help = fmt.Sprintf("Did you mean %q? ", near) + help
		}
		m.doc.problem(m.members[name].key, m.path, fmt.Sprintf("unknown key %q", clip(name, 60)), help)
	}
}

// position is where a member stands, or the mapping if it is left out.
func (m *mapping) position(name string) position {
	if found, ok := m.members[name]; ok {
		if found.value != nil {
			return positionOf(found.value.GetToken())
		}
		return found.key
	}
	return m.at
}

// fail reports a problem of a member.
func (m *mapping) fail(name, message, help string) {
	m.doc.problem(m.position(name), m.join(name), message, help)
}

func (m *mapping) join(name string) string { return join(m.path, name) }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// mapping reads a member that is a mapping; left out, it is empty.
func (m *mapping) mapping(name string) *mapping {
	found, ok := m.get(name)
	if !ok {
		return m.doc.mappingOf(nil, m.join(name), m.position(name))
	}
	return m.doc.mappingOf(found.value, m.join(name), found.key)
}

// list reads a member that is a sequence.
func (m *mapping) list(name string) list {
	found, ok := m.get(name)
	if !ok {
		return nil
	}
	sequence, ok := found.value.(*ast.SequenceNode)
	if !ok {
		m.fail(name, "has to be a list, not "+kindOf(found.value), "Write it as [a, b] or with a dash before each entry.")
		return nil
	}
	var out list
	for i, v := range sequence.Values {
		out = append(out, item{m.doc, fmt.Sprintf("%s[%d]", m.join(name), i), m.doc.resolve(v)})
	}
	return out
}

func (i item) fail(message, help string) {
	i.doc.problem(i.position(), i.path, message, help)
}

func (i item) position() position {
	if i.value == nil {
		return position{1, 1}
	}
	return positionOf(i.value.GetToken())
}

func (i item) mapping() *mapping {
	return i.doc.mappingOf(i.value, i.path, i.position())
}

// kindOf names a YAML node for a message.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode, nil:
		return "nothing"
	default:
		return "text"
	}
}

// textOf undoes standIn.
func textOf(s string) string { return fromStandIn.Replace(strings.ToValidUTF8(s, "\uFFFD")) }
