package expr

// builtinFunctions returns all functions, family by family.
func builtinFunctions() []*Function {
	var all []*Function
	for _, family := range [][]*Function{
		comparisonFunctions(), membershipFunctions(), logicFunctions(), arithmeticFunctions(), conditionalFunctions(),
		stringFunctions(), substringFunctions(), searchFunctions(), likeFunctions(), hashFunctions(), mathFunctions(), roundingFunctions(), randomFunctions(),
		clockFunctions(), castFunctions(), dateFunctions(), timeFunctions(), regexpFunctions(), collectionFunctions(),
		jsonFunctions(), printfFunctions(), lambdaFunctions(),
	} {
		all = append(all, family...)
	}
	for _, f := range all {
		if f.bind == nil || f.unitFirst {
			f.overloads = parseSignature(f.Signature)
		}
	}
	return all
}
