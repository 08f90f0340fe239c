//! Evaluation of expressions: pgbench's rules for types, NULL, overflow and ranges.
//!
//! Numbers are ints or doubles; an operator with one double works in doubles (`%` always in ints).
//! A function or operator with a NULL argument is NULL, except `is`, `and`, `or`, CASE and `debug`.
//! An integer overflow, a division of integers by zero and a parameter out of range are errors.

use std::io::Write as _;

use super::error::EvalError;
use super::expr::{Expr, Node, Operator};
use super::functions::{ARGUMENTS_MAX, Function};
use super::names::{Slot, Variables};
use super::random::{
    GAUSSIAN_MIN, Rng, ZIPFIAN_MAX, ZIPFIAN_MIN, hash_fnv1a, hash_murmur2, permute,
};
use super::shapes::{Shape, seed_of};
use super::value::Value;

type Outcome = Result<Value, EvalError>;

/// The value of an expression.
///
/// # Errors
/// It has none: see the module's rules, and undefined variables.
#[inline]
pub fn eval(expr: &Expr, variables: &Variables, rng: &mut Rng) -> Outcome {
    node(&expr.0, variables, rng)
}

/// True if the condition of `\if` holds: a number that is not 0 does, NULL does not.
///
/// # Errors
/// As [`eval`].
pub fn eval_truth(expr: &Expr, variables: &Variables, rng: &mut Rng) -> Result<bool, EvalError> {
    Ok(eval(expr, variables, rng)?.is_true())
}

fn node(tree: &Node, variables: &Variables, rng: &mut Rng) -> Outcome {
    match tree {
        Node::Constant(value) => Ok(*value),
        Node::Variable(slot) => variables.value(*slot),
        Node::Element(slot, index) => element(*slot, index, variables, rng),
        Node::Binary(operator, pair) => binary(*operator, pair, variables, rng),
        Node::Call(function, arguments) => call(*function, arguments, variables, rng),
        Node::Not(operand) => not(node(operand, variables, rng)?),
        Node::Is(operand, value) => Ok(Value::Bool(node(operand, variables, rng)? == *value)),
        Node::Case(branches, otherwise) => case(branches, otherwise, variables, rng),
    }
}

fn element(slot: Slot, index: &Node, variables: &Variables, rng: &mut Rng) -> Outcome {
    match node(index, variables, rng)? {
        Value::Null => Ok(Value::Null),
        index => variables.element(slot, index.to_int()?),
    }
}

fn not(operand: Value) -> Outcome {
    match operand {
        Value::Null => Ok(Value::Null),
        value => value.to_bool().map(|value| Value::Bool(!value)),
    }
}

fn case(
    branches: &[(Node, Node)],
    otherwise: &Node,
    variables: &Variables,
    rng: &mut Rng,
) -> Outcome {
    for (condition, value) in branches {
        if node(condition, variables, rng)?.is_true() {
            return node(value, variables, rng);
        }
    }
    node(otherwise, variables, rng)
}

#[inline]
fn binary(
    operator: Operator,
    pair: &(Node, Node),
    variables: &Variables,
    rng: &mut Rng,
) -> Outcome {
    let left = node(&pair.0, variables, rng)?;
    if let Operator::And | Operator::Or = operator {
        return match left {
            Value::Null => Ok(Value::Null),
            left if left.to_bool()? == (operator == Operator::Or) => Ok(left),
            _ => match node(&pair.1, variables, rng)? {
                Value::Null => Ok(Value::Null),
                right => right.to_bool().map(Value::Bool),
            },
        };
    }
    let right = node(&pair.1, variables, rng)?;
    apply(operator, left, right)
}

/// An operator that evaluates both operands.
#[inline]
fn apply(operator: Operator, left: Value, right: Value) -> Outcome {
    match (left, right) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Double(_), _) | (_, Value::Double(_)) if !in_ints_only(operator) => {
            Ok(in_doubles(operator, left.to_double()?, right.to_double()?))
        }
        _ => in_ints(operator, left.to_int()?, right.to_int()?),
    }
}

fn in_ints_only(operator: Operator) -> bool {
    use Operator::{BitAnd, BitOr, BitXor, Modulo, ShiftLeft, ShiftRight};
    matches!(
        operator,
        Modulo | BitAnd | BitOr | BitXor | ShiftLeft | ShiftRight
    )
}

#[allow(clippy::float_cmp)] // `=` on doubles is what the script asked for
fn in_doubles(operator: Operator, left: f64, right: f64) -> Value {
    match operator {
        Operator::Add => Value::Double(left + right),
        Operator::Subtract => Value::Double(left - right),
        Operator::Multiply => Value::Double(left * right),
        Operator::Divide => Value::Double(left / right),
        Operator::Less => Value::Bool(left < right),
        Operator::LessOrEqual => Value::Bool(left <= right),
        Operator::Equal => Value::Bool(left == right),
        _ => Value::Bool(left != right),
    }
}

/// Shifts take the lowest 6 bits of their distance, as the CPUs do that pgbench runs on.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn in_ints(operator: Operator, left: i64, right: i64) -> Outcome {
    let checked = |value: Option<i64>, name| value.map(Value::Int).ok_or_else(|| overflow(name));
    match operator {
        Operator::Add => checked(left.checked_add(right), "add"),
        Operator::Subtract => checked(left.checked_sub(right), "sub"),
        Operator::Multiply => checked(left.checked_mul(right), "mul"),
        Operator::Divide | Operator::Modulo if right == 0 => {
            Err(EvalError::new("division by zero"))
        }
        Operator::Divide => checked(left.checked_div(right), "div"),
        Operator::Modulo => Ok(Value::Int(left.wrapping_rem(right))),
        Operator::BitAnd => Ok(Value::Int(left & right)),
        Operator::BitOr => Ok(Value::Int(left | right)),
        Operator::BitXor => Ok(Value::Int(left ^ right)),
        Operator::ShiftLeft => Ok(Value::Int(left.wrapping_shl(right as u32))),
        Operator::ShiftRight => Ok(Value::Int(left.wrapping_shr(right as u32))),
        Operator::Less => Ok(Value::Bool(left < right)),
        Operator::LessOrEqual => Ok(Value::Bool(left <= right)),
        Operator::Equal => Ok(Value::Bool(left == right)),
        Operator::NotEqual => Ok(Value::Bool(left != right)),
        Operator::And | Operator::Or => Err(EvalError::new("boolean operator on integers")),
    }
}

#[cold]
fn overflow(operation: &str) -> EvalError {
    EvalError::new(format!("bigint {operation} out of range"))
}

/// Evaluates the arguments, in order, into an array on the stack: a short one where that is enough,
/// since most calls are `random(a, b)`.
fn call(function: Function, arguments: &[Node], variables: &Variables, rng: &mut Rng) -> Outcome {
    match arguments {
        [first, second] => {
            let first = node(first, variables, rng)?;
            let second = node(second, variables, rng)?;
            apply_function(function, &[first, second], rng)
        }
        _ => {
            let mut values = [Value::Null; ARGUMENTS_MAX];
            for (value, argument) in values.iter_mut().zip(arguments) {
                *value = node(argument, variables, rng)?;
            }
            apply_function(function, &values[..arguments.len().min(ARGUMENTS_MAX)], rng)
        }
    }
}

fn apply_function(function: Function, values: &[Value], rng: &mut Rng) -> Outcome {
    if function == Function::Debug {
        return Ok(debug(values[0]));
    }
    if values.iter().any(|value| matches!(value, Value::Null)) {
        return Ok(Value::Null);
    }
    match function {
        Function::Random
        | Function::RandomExponential
        | Function::RandomGaussian
        | Function::RandomZipfian => random(function, values, rng),
        Function::RandomUuid => Ok(Value::Uuid(rng.uuid())),
        Function::RandomText => random_text(values, rng),
        Function::Greatest | Function::Least => extreme(function, values),
        _ => plain(function, values),
    }
}

/// The functions that need nothing but their arguments.
fn plain(function: Function, values: &[Value]) -> Outcome {
    let double = |at: usize| values[at].to_double();
    let int = |at: usize| values[at].to_int();
    Ok(match function {
        Function::Abs => match values[0] {
            Value::Int(value) => Value::Int(value.wrapping_abs()),
            value => Value::Double(value.to_double()?.abs()),
        },
        Function::Double => Value::Double(double(0)?),
        Function::Exp => Value::Double(double(0)?.exp()),
        Function::Ln => Value::Double(double(0)?.ln()),
        Function::Sqrt => Value::Double(double(0)?.sqrt()),
        Function::Power => Value::Double(double(0)?.powf(double(1)?)),
        Function::Pi => Value::Double(std::f64::consts::PI),
        Function::Int => Value::Int(int(0)?),
        Function::Mod => return apply(Operator::Modulo, values[0], values[1]),
        Function::HashFnv1a => Value::Int(hash_fnv1a(int(0)?, int(1)?)),
        Function::HashMurmur2 => Value::Int(hash_murmur2(int(0)?, int(1)?)),
        Function::TextOf => Value::Text {
            seed: seed_of(int(0)?),
            length: text_length(values[1])?,
        },
        Function::DocumentOf => Value::Shape(Shape::Document {
            seed: seed_of(int(0)?),
            length: text_length(values[1])?,
        }),
        Function::ArrayOf => {
            let length = values.get(3).map_or(Ok(0), |&length| text_length(length))?;
            let count = text_length(values[1])?;
            Value::Shape(Shape::array(int(0)?, count, int(2)?, length)?)
        }
        Function::RangeOf => Value::Shape(match values[0] {
            Value::Timestamp(low) => Shape::range(low, int(1)?, true)?,
            low => Shape::range(low.to_int()?, int(1)?, false)?,
        }),
        Function::Timestamp => Value::timestamp(values[0])?,
        Function::UuidOf => Value::Uuid(Rng::new(int(0)?.cast_unsigned()).uuid()),
        Function::Permute => match (int(0)?, int(1)?, int(2)?) {
            (value, size @ 1.., seed) => Value::Int(permute(value, size, seed)),
            _ => {
                return Err(EvalError::new(
                    "the size given to permute must be greater than zero",
                ));
            }
        },
        _ => return Err(EvalError::new("not a function of its arguments alone")),
    })
}

/// A text of one length, or of a length between two.
fn random_text(values: &[Value], rng: &mut Rng) -> Outcome {
    let shortest = text_length(values[0])?;
    let longest = text_length(values[values.len() - 1])?;
    if shortest > longest {
        return Err(EvalError::new(format!(
            "empty range given to random_text: {shortest} to {longest}"
        )));
    }
    let length = rng.range(i64::from(shortest), i64::from(longest));
    Ok(Value::Text {
        seed: rng.next_u64(),
        length: text_length(Value::Int(length))?,
    })
}

fn text_length(value: Value) -> Result<u16, EvalError> {
    let length = value.to_int()?;
    u16::try_from(length)
        .map_err(|_| EvalError::new(format!("a text has 0 to 65535 characters, not {length}")))
}

/// `greatest` or `least`: in doubles if one of the values is a double.
fn extreme(function: Function, values: &[Value]) -> Outcome {
    let greatest = function == Function::Greatest;
    if values.iter().any(|value| matches!(value, Value::Double(_))) {
        let mut best = values[0].to_double()?;
        for value in &values[1..] {
            let value = value.to_double()?;
            let better = if greatest { best > value } else { best < value };
            best = if better { best } else { value };
        }
        return Ok(Value::Double(best));
    }
    let mut best = values[0].to_int()?;
    for value in &values[1..] {
        let value = value.to_int()?;
        best = if greatest {
            best.max(value)
        } else {
            best.min(value)
        };
    }
    Ok(Value::Int(best))
}

fn random(function: Function, values: &[Value], rng: &mut Rng) -> Outcome {
    let (min, max) = (values[0].to_int()?, values[1].to_int()?);
    if min > max {
        return Err(EvalError::new(format!(
            "empty range given to random: {min} to {max}"
        )));
    }
    if max
        .checked_sub(min)
        .and_then(|width| width.checked_add(1))
        .is_none()
    {
        return Err(EvalError::new(format!(
            "random range is too large: {min} to {max}"
        )));
    }
    if function == Function::Random {
        return Ok(Value::Int(rng.range(min, max)));
    }
    let parameter = values[2].to_double()?;
    let refused = |name: &str, wanted: &str| {
        Err(EvalError::new(format!(
            "{name} parameter must be {wanted} (not {parameter})"
        )))
    };
    Ok(Value::Int(match function {
        Function::RandomGaussian if !(GAUSSIAN_MIN..f64::INFINITY).contains(&parameter) => {
            return refused("gaussian", &format!("at least {GAUSSIAN_MIN:.1}"));
        }
        Function::RandomZipfian if !(ZIPFIAN_MIN..=ZIPFIAN_MAX).contains(&parameter) => {
            return refused(
                "zipfian",
                &format!("in range [{ZIPFIAN_MIN:.3}, {ZIPFIAN_MAX:.0}]"),
            );
        }
        Function::RandomExponential if parameter.is_nan() || parameter <= 0.0 => {
            return refused("exponential", "greater than zero");
        }
        Function::RandomGaussian => rng.gaussian(min, max, parameter),
        Function::RandomZipfian => rng.zipfian(min, max, parameter),
        _ => rng.exponential(min, max, parameter),
    }))
}

/// `debug(x)`: shows its argument on standard error, which is what it is for, and yields it.
#[cold]
fn debug(value: Value) -> Value {
    let mut line = format!("debug: {}", value.type_name()).into_bytes();
    if value != Value::Null {
        line.push(b' ');
        value.write_text(&mut line);
    }
    line.push(b'\n');
    // A closed standard error is no reason to stop the load.
    let _ = std::io::stderr().write_all(&line);
    value
}
