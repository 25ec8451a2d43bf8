package expr

// builtinFunctions returns all functions, family by family.
func builtinFunctions() []*Function {
	var all []*Function
	for _, family := range [][]*Function{
		comparisonFunctions(), membershipFunctions(), logicFunctions(), arithmeticFunctions(), conditionalFunctions(),
	} {
		all = append(all, family...)
	}
	for _, f := range all {
		if f.bind == nil {
			f.overloads = parseSignature(f.Signature)
		}
	}
	return all
}
